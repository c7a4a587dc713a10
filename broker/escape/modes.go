package escape

// Private modes that pass (CSI ? n h, CSI ? n l), and whether they are set in a fresh terminal.
// Left out are the modes that change the window's size (3, 40), the grammar of sequences (2), the
// printer (18, 19), the locking of keys, and the modes that hang a terminal (1001) or make it
// report by itself (2031, 2048).
var modes = map[int]struct{ set, input bool }{
	1:           {input: true}, // cursor keys
	5:           {},            // reverse video
	6:           {},            // origin at the margins
	7:           {set: true},   // wrapping
	9:           {input: true}, // mouse
	12:          {},            // blinking cursor
	25:          {set: true},   // cursor is shown
	45:          {},            // wrapping backwards
	47:          {},            // alternate screen
	66:          {input: true}, // keypad
	69:          {},            // margins left and right
	1000:        {input: true}, // mouse
	1002:        {input: true},
	1003:        {input: true},
	1004:        {input: true}, // focus
	1005:        {input: true}, // mouse
	1006:        {input: true},
	1007:        {input: true},
	1015:        {input: true},
	1016:        {input: true},
	1047:        {}, // alternate screen
	savesCursor: {},
	1049:        {},            // both
	2004:        {input: true}, // bracketed paste
	2026:        {},            // shows an update at once
}

// plain are the modes that are not private (CSI n h): insertion, and a line feed that also returns.
// None is set in a fresh terminal.
var plain = map[int]bool{4: true, 20: true}
