package escape_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hostler/hostler/broker/escape"
)

var (
	live = escape.Policy{Answers: true}
	all  = escape.Policy{Title: true, Clipboard: true, Answers: true}
)

// seen is what of a stream reaches the terminal. However it is cut, it is the same.
func seen(t *testing.T, p escape.Policy, stream string) string {
	t.Helper()
	whole := string(escape.New(p).Append(nil, []byte(stream)))
	for cut := range len(stream) {
		f := escape.New(p)
		got := f.Append(f.Append(nil, []byte(stream[:cut])), []byte(stream[cut:]))
		if string(got) != whole {
			t.Fatalf("cut at %d, %q is %q, and %q in one piece", cut, stream, got, whole)
		}
	}
	return whole
}

// Each would act on the terminal of whoever looks, or have it type something.
func TestWhatActsOnTheTerminalIsDropped(t *testing.T) {
	for name, stream := range map[string]string{
		"title":                          "\x1b]0;root@prod\a",
		"icon":                           "\x1b]1;x\x1b\\",
		"title alone":                    "\x1b]2;x\a",
		"title of screen":                "\x1bkrm -rf\x1b\\",
		"title stack":                    "\x1b[22;0t\x1b[23;0t",
		"title is asked":                 "\x1b[21t",
		"window moves":                   "\x1b[3;0;0t",
		"window shrinks":                 "\x1b[8;1;1t",
		"window is iconified":            "\x1b[2t",
		"132 columns":                    "\x1b[?40h\x1b[?3h",
		"clipboard":                      "\x1b]52;c;cm0gLXJmIC8K\a",
		"clipboard is asked":             "\x1b]52;c;?\a",
		"hyperlink":                      "\x1b]8;;file:///etc/passwd\x1b\\\x1b]8;;\x1b\\",
		"working directory":              "\x1b]7;file://x/\a",
		"colour is asked":                "\x1b]11;?\a\x1b]4;1;?\x1b\\",
		"colour is set":                  "\x1b]10;#000000\a\x1b]11;#000000\a",
		"notification":                   "\x1b]9;Your password?\a\x1b]777;notify;a;b\a\x1b]99;;x\x1b\\",
		"file is sent":                   "\x1b]1337;File=name=LmJhc2hyYw==;inline=0:AAAA\a",
		"mark of a prompt":               "\x1b]133;A\a",
		"setting is asked":               "\x1bP$q\"p\x1b\\",
		"terminfo is asked":              "\x1bP+q544e\x1b\\",
		"function key is programmed":     "\x1bP0;0|17/6c73\x1b\\",
		"picture":                        "\x1bPq#0;2;0;0;0#0~~@@\x1b\\",
		"through tmux":                   "\x1bPtmux;\x1b\x1b]52;c;cm0=\a\x1b\\",
		"control mode of tmux":           "\x1bP1000p",
		"application command":            "\x1b_Ga=T;AAAA\x1b\\",
		"privacy message":                "\x1b^x\x1b\\",
		"start of string":                "\x1bXx\x1b\\",
		"answerback":                     "\x05",
		"who are you, of old":            "\x1bZ",
		"version is asked":               "\x1b[>q",
		"third attributes":               "\x1b[=c",
		"parameters are asked":           "\x1b[x",
		"mode is asked":                  "\x1b[?2004$p\x1b[4$p",
		"graphics are asked":             "\x1b[?1;1;0S",
		"checksum of the screen":         "\x1b[1;1;1;1;24;80*y",
		"printer":                        "\x1b[i\x1b[5i\x1b[?1i\x1b[?5i",
		"printer is asked":               "\x1b[?15n",
		"keys are locked":                "\x1b[2h",
		"echo of one's own":              "\x1b[12l",
		"another grammar":                "\x1b[?2l",
		"another encoding":               "\x1b%@\x1b%G",
		"eight-bit answers":              "\x1b G",
		"eight-bit level":                "\x1b[62;0\"p",
		"mouse that hangs":               "\x1b[?1001h\x1b[1;2;3;4;5T",
		"scrolled lines":                 "\x1b[3J",
		"keys otherwise":                 "\x1b[>4;2m\x1b[>1u\x1b[=1;1u\x1b[?u",
		"pointer":                        "\x1b[>1p",
		"lamps":                          "\x1b[3q",
		"rectangles":                     "\x1b[1;1;9;9$z",
		"repeats":                        "\x1b[99999b",
		"numbers":                        "\x1b[2147483647A",
		"transfer of a file":             "\x18",
		"cancelled":                      "\x1b]0;x\x18\x1b[21\x1a",
		"cut by another":                 "\x1b]0;x\x1b[21\x1b]0;y\x1b[3\x1b[21t",
		"title that ends in a sequence":  "\x1b]0;x\x1b[21t\x1b]2;y\x1b]0;z\a",
		"escape before escape":           "\x1b\x1b\x1b]0;x\a",
		"longer than may be":             "\x1b[" + strings.Repeat("1;", 500) + "m",
		"longer than may be in a string": "\x1b]0;" + strings.Repeat("x", 900) + "\a",
		"empty":                          "\x1b]\a\x1b]\x1b\\\x1b[?h\x1b[h",
		"no end":                         "\x1b]0;x",
		"controls that are none":         "\x00\x01\x02\x03\x04\x06\x10\x11\x12\x13\x14\x17\x1c\x1f\x7f",
	} {
		for which, p := range map[string]escape.Policy{"nothing": {}, "live": live} {
			if got := seen(t, p, stream); got != "" {
				t.Errorf("%s (%s): %q passes", name, which, got)
			}
		}
	}
}

// Where parts of what is dropped are text to a terminal that does not know the rest, text
// is all that they are.
func TestWhatIsLeftIsText(t *testing.T) {
	for name, c := range map[string][2]string{
		"C1 in eight bits":             {"a\x9b31mb\x9d0;x\x9cc", "a\ufffd31mb\ufffd0;x\ufffdc"},
		"C1 as characters":             {"a\u009b21tb\u0090c\u0085", "a\ufffd21tb\ufffdc\ufffd"},
		"C1 too long":                  {"\xe0\x82\x9b31m", "\ufffd\ufffd31m"},
		"a character that is cut":      {"\xe2\x82\x1b[1mx\xf0\x9f\n", "\ufffd\x1b[1mx\ufffd\n"},
		"a surrogate":                  {"\xed\xa0\x80", "\ufffd\ufffd"},
		"transfer of a file":           {"**\x18B00000000000000\r\x8a\x11", "**B00000000000000\r\ufffd"},
		"a control in a sequence":      {"\x1b[3\n1m", "\n\x1b[31m"},
		"a character in a sequence":    {"\x1b[3\u00e9x\x1b\u00e9", "\u00e9x\u00e9"},
		"a link":                       {"\x1b]8;;http://x/\x1b\\here\x1b]8;;\x1b\\.", "here."},
		"colours of Linux's console":   {"\x1b]Rafter\x1b]P0123456after", "afterafter"},
		"modes among which some may":   {"\x1b[?3;25;1001;7h\x1b[2;4l", "\x1b[?25;7h\x1b[4l"},
		"all is new":                   {"\x1b[?1049h\x1bcx", "\x1b[?1049h\x1b[?1049l\x1b[0m\x1b(B\x0f\x1b[!p\x1b[H\x1b[2Jx"},
		"a colour with parts":          {"\x1b[4:3;38:2::1:2:3m", "\x1b[4:3;38:2::1:2:3m"},
		"a mode with parts":            {"\x1b[?25:1hx", "x"},
		"a string within a string":     {"\x1bP\x1b]0;\x1b\\x", "x"},
		"a bell within what is no OSC": {"\x1b_x\ay\x1b\\z", "z"},
	} {
		if got := seen(t, live, c[0]); got != c[1] {
			t.Errorf("%s: %q is shown as %q, want %q", name, c[0], got, c[1])
		}
	}
}

// What full-screen programs write to draw is not touched.
func TestWhatDrawsPasses(t *testing.T) {
	for name, stream := range map[string]string{
		"text":      "abc ~\u00e9\u20ac\U0001f600\a\b\t\n\v\f\r\x0e\x0f",
		"colours":   "\x1b[0;1;38;5;200;48;2;1;2;3mx\x1b[m",
		"moving":    "\x1b[5A\x1b[2;3H\x1b[3;4f\x1b[9G\x1b[9d\x1b[a\x1b[e\x1b[`\x1b[I\x1b[Z\x1b[E\x1b[F",
		"erasing":   "\x1b[J\x1b[2J\x1b[K\x1b[1K\x1b[?2J\x1b[3X\x1b[2P\x1b[2L\x1b[2M\x1b[@",
		"scrolling": "\x1b[1;24r\x1b[3S\x1b[3T\x1b[r\x1bD\x1bM\x1bE",
		"repeats":   "-\x1b[79b",
		"cursor":    "\x1b7\x1b8\x1b[s\x1b[u\x1b[?25l\x1b[?25h\x1b[2 q\x1b[?12h",
		"screens":   "\x1b[?1049h\x1b[?1049l\x1b[?47h\x1b[?47l\x1b[?2026h\x1b[?2026l",
		"keys":      "\x1b[?1h\x1b=\x1b[?1l\x1b>\x1b[?2004h\x1b[?1000;1006h\x1b[?1004h",
		"lines":     "\x1b(0lqqk\x1b(B\x1b)0\x1b#8",
		"modes":     "\x1b[4h\x1b[4l\x1b[20l\x1b[?7l\x1b[?7h\x1b[?5h\x1b[?69h",
		"reset":     "\x1b[!p",
		"tabs":      "\x1bH\x1b[g\x1b[3g",
		"questions": "\x1b[c\x1b[0c\x1b[>c\x1b[>0c\x1b[5n\x1b[6n\x1b[?6n",
	} {
		if got := seen(t, live, stream); got != stream {
			t.Errorf("%s: %q is shown as %q", name, stream, got)
		}
	}
}

// Where nobody's keyboard is the session's, the terminal sends nothing because of it.
func TestWithoutAKeyboardNothingIsAskedOfTheTerminal(t *testing.T) {
	for _, stream := range []string{
		"\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[5n", "\x1b[6n", "\x1b[?6n",
		"\x1b[?1000h", "\x1b[?1003;1006h", "\x1b[?1004h", "\x1b[?2004h", "\x1b[?1h", "\x1b=", "\x1b[?66h", "\x1b[?9h",
	} {
		if got := seen(t, escape.Policy{Title: true, Clipboard: true}, stream); got != "" {
			t.Errorf("%q: %q passes", stream, got)
		}
	}
	if got := seen(t, escape.Policy{}, "\x1b[?1000;1049;2004h"); got != "\x1b[?1049h" {
		t.Errorf("of modes that draw and others, %q pass", got)
	}
}

func TestTitleAndClipboardPassWhereThePolicySaysSo(t *testing.T) {
	copied := base64.StdEncoding.EncodeToString([]byte("kubectl get pods"))
	for name, c := range map[string][2]string{
		"title":                       {"\x1b]0;gpu-07: top\a", "\x1b[22;0t\x1b]0;gpu-07: top\x1b\\"},
		"title twice":                 {"\x1b]2;a\x1b\\\x1b]2;b;c\a", "\x1b[22;0t\x1b]2;a\x1b\\\x1b]2;b;c\x1b\\"},
		"title with more in it":       {"\x1b]2;a\nb\u009d52;c;eA==\u009c\u202e\xff\a", "\x1b[22;0t\x1b]2;a\\x0ab\\u{9d}52;c;eA==\\u{9c}\\u{202e}\\xff\x1b\\"},
		"title too long":              {"\x1b]2;" + strings.Repeat("x", 257) + "\a", ""},
		"title is asked all the same": {"\x1b[21t\x1b]0\a", ""},
		"clipboard":                   {"\x1b]52;c;" + copied + "\a", "\x1b]52;c;" + copied + "\x1b\\"},
		"clipboard is asked":          {"\x1b]52;c;?\a\x1b]52;;?\x1b\\", ""},
		"clipboard is emptied":        {"\x1b]52;c;\a", ""},
		"clipboard that is none":      {"\x1b]52;c;!!!\a\x1b]52;x;eA==\a\x1b]52;eA==\a", ""},
		"clipboard too large":         {"\x1b]52;c;" + strings.Repeat("AAAA", 20000) + "\a", ""},
		"link":                        {"\x1b]8;;http://x\a", ""},
	} {
		f := escape.New(all)
		if got := string(f.Append(nil, []byte(c[0]))); got != c[1] {
			t.Errorf("%s: %q, want %q", name, got, c[1])
		}
	}
	// Each by itself is not the other.
	if got := seen(t, escape.Policy{Title: true}, "\x1b]52;c;eA==\a") + seen(t, escape.Policy{Clipboard: true}, "\x1b]0;x\a"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestTheTerminalIsPutRight(t *testing.T) {
	const always = "\x1b[0m\x1b(B\x0f"
	for name, c := range map[string][2]string{
		"nothing was done":             {"hello\r\n", ""},
		"a program that was killed":    {"\x1b[?1049h\x1b[?1h\x1b=\x1b[?25l\x1b[?2004h\x1b[?1002;1006h\x1b[1;23r", "\x1b[?2004l\x1b[?1049l\x1b[?1006l\x1b[?1002l\x1b[?25h\x1b[?1l\x1b7\x1b[r\x1b8\x1b>"},
		"a program that ended":         {"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", ""},
		"a place is no state":          {"\x1b[?1048h", ""},
		"origin and margins":           {"\x1b[2;5r\x1b[?6h", "\x1b[?6l\x1b[r\x1b[9999;1H\x1b7\x1b[r\x1b8"},
		"insertion, no wrapping":       {"\x1b[4h\x1b[?7l", "\x1b[?7h\x1b[4l"},
		"shape":                        {"\x1b[4 q", "\x1b[0 q"},
		"title":                        {"\x1b]0;x\a\x1b]0;y\a", "\x1b[23;0t"},
		"line drawing in G1":           {"\x1b)0\x0elqk", "\x1b)B"},
		"line drawing, and no more":    {"\x1b)0\x0eq\x0f\x1b)B", "\x1b)B"},
		"line drawing is brought back": {"\x1b)0\x1b7\x1b)B\x1b8", "\x1b)B"},
		"by its sequence with a CSI":   {"\x1b*0\x1b[s\x1b*B\x1b[u", "\x1b*B"},
		"by the other screen's end":    {"\x1b+A\x1b[?1049h\x1b+B\x1b[?1049l", "\x1b+B"},
		"after a reset":                {"\x1b)0\x1b7\x1bc\x1b8", "\x1b)B"},
		"letters, and nothing else":    {"\x1b)B\x1b*B\x1b7\x1b8", ""},
		"others are used at any time":  {"\x1b(0\x1b*A\x1b+0", "\x1b*B\x1b+B"},
		"in the middle of a sequence":  {"\x1b]0;x", ""},
		"in the middle of a character": {"\xe2\x82", ""},
	} {
		f := escape.New(all)
		f.Append(nil, []byte(c[0]))
		if got := string(f.Restore(nil)); got != c[1]+always {
			t.Errorf("%s: %q, want %q", name, got, c[1]+always)
		}
		if got := string(f.Append(nil, []byte("0;m"))); got != "0;m" {
			t.Errorf("%s: and then %q", name, got)
		}
		if got := string(f.Restore(nil)); got != always {
			t.Errorf("%s: the second time %q", name, got)
		}
	}
}

// A stop that the stream has set or cleared would be in what comes after it.
func TestTabStopsAreWhereTheyWere(t *testing.T) {
	stops := strings.Repeat("\x1b[8C\x1bH", 63)
	const letters = "\x1b[0m\x1b(B\x0f"
	want := letters + "\x1b7\x1b[3g\r" + stops + "\x1b[?5W\x1b8"
	for _, changed := range []string{"\x1bH", "\x1b[g", "\x1b[3g", "\x1bH\x1bc", "\x1b[3g\x1b[!p"} {
		f := escape.New(all)
		f.Append(nil, []byte(changed))
		if got := string(f.Restore(nil)); got != want {
			t.Errorf("%q: %q", changed, got)
		}
		if got := string(f.Restore(nil)); got != letters {
			t.Errorf("%q: the second time %q", changed, got)
		}
	}
}

func TestAStreamThatGoesOnElsewhereBeginsWithText(t *testing.T) {
	f := escape.New(live)
	f.Append(nil, []byte("\x1b]0;x"))
	f.Lost()
	if got := string(f.Append(nil, []byte("after"))); got != "after" {
		t.Errorf("%q", got)
	}
}

// Real programs, as they were recorded: what they draw comes through, and they end with the
// terminal as it was.
func TestWhatRealProgramsWrite(t *testing.T) {
	for _, program := range []string{"vim", "less", "bash"} {
		raw, err := os.ReadFile("testdata/" + program + ".out")
		if err != nil {
			t.Error(err)
			continue
		}
		f := escape.New(live)
		got := f.Append(nil, raw)
		if dropped := len(raw) - len(got); dropped*20 > len(raw) {
			t.Errorf("%s: of %d bytes, %d are dropped", program, len(raw), dropped)
		}
		if restored := string(f.Restore(nil)); strings.ContainsAny(restored, "hl") {
			t.Errorf("%s leaves the terminal so that %q puts it right", program, restored)
		}
	}
}

// drawing is all that may ever pass without title and clipboard, said in another way.
var drawing = regexp.MustCompile("^(?:[ -~\a\b\t-\r\x0e\x0f]|[\u00a0-\U0010ffff]|\x1b(?:[78DEHM=>]|[()*+][0AB]|#[34568]|" +
	"\\[[0-9:;]*[@A-IKLMPSXZ`abd-gmrs]|\\[[0-9:;]*(?:[0-2]?J|T)|\\[u|\\[0*c|\\[>0*c|\\[0*[56]n|\\[\\?0*6n|\\[[0-9]* q|\\[!p|\\[\\?0*[0-2]?[JK]|" +
	"\\[(?:4|20)(?:;4|;20)*[hl]|\\[\\?[0-9;]+[hl]))*$")

func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		"a\x1b[1;31mb\x1b[0m\r\n", "\x1b]0;t\a", "\x1b]52;c;eA==\x1b\\", "\x1bPq\x1b\\x", "\u009b31m\xe2\x82\xac", "\x1b[?1049;1001h\x1bc", "\x1b]P0123456x", "\x1b[\n3\x1b[6n",
	} {
		f.Add([]byte(s), 1, false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut int, answers bool) {
		p := escape.Policy{Answers: answers}
		whole := escape.New(p).Append(nil, raw)
		pieces := escape.New(p)
		cut = min(max(cut, 0), len(raw))
		if got := pieces.Append(pieces.Append(nil, raw[:cut]), raw[cut:]); !bytes.Equal(got, whole) {
			t.Fatalf("cut at %d: %q, and %q", cut, got, whole)
		}
		if !utf8.Valid(whole) || !drawing.Match(whole) {
			t.Fatalf("%q passes", whole)
		}
		if again := escape.New(p).Append(nil, whole); !bytes.Equal(again, whole) {
			t.Fatalf("of %q that passed, %q passes", whole, again)
		}
		with := escape.New(all)
		got := with.Append(nil, raw)
		if len(got) > 40*len(raw)+64 || !utf8.Valid(got) {
			t.Fatalf("%d bytes became %d", len(raw), len(got))
		}
		if end := with.Restore(nil); !utf8.Valid(end) {
			t.Fatalf("%q", end)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	line := []byte(strings.Repeat("\x1b[32mdrwxr-xr-x\x1b[0m  2 root root  4096 Mar  1 12:00 some name of a file\r\n", 200))
	f, to := escape.New(live), []byte(nil)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		to = f.Append(to[:0], line)
	}
}
