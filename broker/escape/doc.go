// Package escape lets through of a terminal's output what draws, and nothing that acts on
// the terminal of whoever looks at it. What a node writes is not trusted: its tenant may
// have had root.
//
// # Model
//
// A Filter reads a stream of bytes, whatever its pieces are. It knows the grammar of
// escape sequences (ECMA-48, and what xterm and Linux have made of it), holds a sequence
// until it is whole, and writes it anew if it is on the list of those that pass. So no
// terminal can read anything else into it, and what is on no list is gone with all that
// belongs to it. Text passes as UTF-8; a byte that is none, and a C1 control in either of
// its forms (a byte of 0x80 to 0x9f, or U+0080 to U+009F), is shown as U+FFFD.
//
// # What passes
//
//	controls   BEL BS HT LF VT FF CR SO SI
//	ESC        save and restore the cursor, index, tab stop, reverse index, keypad, the
//	           charsets of ASCII, Britain and line drawing, height and width of a line
//	CSI        moving, erasing, inserting, deleting and scrolling, SGR, tab stops, margins,
//	           insert mode, cursor shape, soft reset, and of the private modes those in
//	           modes.go
//	OSC 0 1 2  the title, as text of one line, where the policy says so
//	OSC 52     what is put into the clipboard, where the policy says so; never a question
//
// A full reset (ESC c) becomes a soft one with an empty screen, since it takes away what was
// on the screen before the session. The same goes for the erasing of what has scrolled away
// (CSI 3 J), which is dropped.
//
// # Questions
//
// A terminal answers some sequences as if the answer was typed. The answer goes to the node,
// which asked, while the session has the keyboard; one that comes later goes to the shell of
// the operator. So none passes whose answer has text that the node has chosen (the title,
// settings, colours, the clipboard, the answerback, a checksum of the screen), or that names
// the terminal. Programs need two: what kind of terminal it is, and where the cursor is (CSI
// c, CSI > c, CSI 5 n, CSI 6 n). Their answers have a fixed form of digits with no line end.
// These pass where the policy has Answers; without it, as when a recording is played, none
// does, and none of the modes by which the terminal sends something by itself, or other keys
// (mouse, focus, paste, cursor keys, keypad).
//
// # Bounds
//
// A sequence is held up to 256 bytes, a title up to 256, a clipboard up to 64 KiB. A longer
// one is dropped whole.
//
// # What it leaves to others
//
// The operator's terminal has to be one of UTF-8: one that takes the bytes of a character
// for controls of eight bits is not protected. The bell may ring as often as the node likes,
// and text may claim what it likes.
package escape
