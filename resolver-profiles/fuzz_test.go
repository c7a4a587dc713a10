package profiles

import (
	"path"
	"strings"
	"testing"
)

// What arrives as JSON is judged no less than what is read from files.
func FuzzDecode(f *testing.F) {
	for _, files := range [][]File{shipped(), {{"minimal.yaml", minimal}}, {{"set.yaml", []byte(whole)}}} {
		set, problems := Parse(files...)
		if problems != nil {
			f.Fatal(problems)
		}
		raw, err := set.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		set, problems := Decode(raw)
		if (set == nil) == (problems == nil) {
			t.Fatalf("a set and problems, or neither: %v", problems)
		}
		if set == nil {
			return
		}
		for _, c := range set.CommandProfiles {
			if !path.IsAbs(c.Command) || path.Clean(c.Command) != c.Command || RunsOtherPrograms(c.Command) || c.TimeoutSeconds < 1 || c.CaptureStdout > MaxCapture {
				t.Errorf("taken: %+v", c)
			}
		}
		for _, step := range Steps() {
			set.Explain(map[string]string{"gpu.vendor": "nvidia"}, step)
		}
	})
}

// Whatever the text is, Parse answers: with problems, or with a set that holds
// the promises of the package and comes back from its JSON.
func FuzzParse(f *testing.F) {
	for _, file := range append(shipped(), File{"minimal.yaml", minimal}) {
		f.Add(string(file.Text))
	}
	f.Add(whole)
	for _, c := range refusals {
		if len(c.text) < 4096 {
			f.Add(c.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, problems := Parse(File{"fuzz.yaml", []byte(text)})
		if (set == nil) == (problems == nil) {
			t.Fatalf("a set and problems, or neither: %v", problems)
		}
		for _, p := range problems {
			if p.Code == "" || p.File != "fuzz.yaml" || strings.ContainsAny(p.Message, "\n\x1b\x00") {
				t.Errorf("%+v", p)
			}
		}
		if set == nil {
			return
		}
		raw, err := set.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, problems := Decode(raw)
		if problems != nil || again.Digest() != set.Digest() {
			t.Fatalf("does not come back: %v\n%s", problems, raw)
		}
		if len(set.HardwareProfiles[len(set.HardwareProfiles)-1].Match) != 0 {
			t.Error("the fallback is not last")
		}
		for _, c := range set.CommandProfiles {
			if !path.IsAbs(c.Command) || path.Clean(c.Command) != c.Command || RunsOtherPrograms(c.Command) || c.TimeoutSeconds < 1 {
				t.Errorf("taken: %+v", c)
			}
		}
	})
}
