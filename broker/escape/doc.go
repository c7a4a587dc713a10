// Package escape filters a terminal's output: sequences that draw pass, and sequences that act on
// the viewer's terminal do not. The main type is Filter. A node's output is not trusted, because
// the node's tenant may have had root.
//
// # Model
//
// A Filter reads a stream of bytes, however the stream is cut into pieces. The Filter knows the
// grammar of escape sequences (ECMA-48, with the additions of xterm and Linux), holds a sequence
// until it is complete, and writes the sequence anew if it is on the list of permitted sequences.
// So no terminal can interpret the output differently, and an unlisted sequence disappears
// completely. Text passes as UTF-8. An invalid byte and a C1 control, in either of its forms (a
// byte of 0x80 to 0x9f, or U+0080 to U+009F), become U+FFFD.
//
// # What passes
//
//	controls   BEL BS HT LF VT FF CR SO SI
//	ESC        save and restore the cursor, index, tab stop, reverse index, keypad, the
//	           charsets of ASCII, Britain and line drawing, height and width of a line
//	CSI        moving, erasing, inserting, deleting and scrolling, SGR, tab stops, margins,
//	           insert mode, cursor shape, soft reset, and the private modes in modes.go
//	OSC 0 1 2  the title, as text of one line, if the policy permits titles
//	OSC 52     writing to the clipboard, if the policy permits it; never a question
//
// A full reset (ESC c) becomes a soft reset with an empty screen, because a full reset would remove
// the screen from before the session. For the same reason the erasure of the scrollback (CSI 3 J)
// is dropped.
//
// # Questions
//
// A terminal answers some sequences as if the operator had typed the answer. While the session has
// the keyboard, the answer goes to the node, which asked. A later answer goes to the operator's
// shell. Therefore no question passes if the node can choose text in the answer (the title,
// settings, colours, the clipboard, the answerback, a checksum of the screen), or if the answer
// names the terminal. Programs need two questions: the kind of the terminal and the position of the
// cursor (CSI c, CSI > c, CSI 5 n, CSI 6 n). Their answers have a fixed form of digits without a
// line end. These questions pass if the policy has Answers. Without Answers, as in the playback of
// a recording, no question passes, and no mode passes by which the terminal sends something by
// itself or sends other keys (mouse, focus, paste, cursor keys, keypad).
//
// # Bounds
//
// A sequence is held up to 256 bytes, a title up to 256, a clipboard up to 64 KiB. A longer
// sequence is dropped completely.
//
// # What it leaves to others
//
// The operator's terminal must use UTF-8: a terminal that reads the bytes of a character as
// eight-bit controls is not protected. The node may ring the bell as often as it likes, and text
// may claim anything.
package escape
