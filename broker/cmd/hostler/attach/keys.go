package attach

// escapeKey as the first character of a line introduces an escape.
const escapeKey = '~'

// Help explains the escapes.
const Help = "~. ends the session, ~d detaches and leaves it running, ~~ types ~, ~? shows this list; each after Enter"

// keys finds the escapes in typed bytes. The zero value stands in the middle of a line.
type keys struct {
	first bool // of a line
	tilde bool // a ~ was typed there and is held back
}

// take returns the bytes for the node, then the escape that follows (. d ?; 0: none), and the bytes
// typed after the escape.
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
