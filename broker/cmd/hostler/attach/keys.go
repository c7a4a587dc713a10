package attach

// escapeKey is typed as the first character of a line, and takes the next one.
const escapeKey = '~'

// Help says what the escapes are.
const Help = "~. ends the session, ~d leaves it to go on by itself, ~~ types ~, ~? says this; each after Enter"

// keys finds the escapes in what is typed. The zero value is for the middle of a line.
type keys struct {
	first bool // of a line
	tilde bool // was typed there, and is not passed on yet
}

// take gives what goes to the node, and the escape that comes after it (. d ?), with what
// was typed after that; 0: there is none.
func (k *keys) take(b []byte) (input []byte, escape byte, rest []byte) {
	for i, c := range b {
		if k.tilde {
			k.tilde = false
			switch c {
			case '.', 'd', '?':
				k.first = true
				return input, c, b[i+1:]
			case escapeKey:
			default:
				input = append(input, escapeKey)
			}
		} else if k.first && c == escapeKey {
			k.tilde = true
			continue
		}
		k.first = c == '\r' || c == '\n'
		input = append(input, c)
	}
	return input, 0, nil
}
