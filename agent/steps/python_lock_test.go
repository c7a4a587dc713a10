package steps

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

var hashA, hashB = "--hash=sha256:" + strings.Repeat("a", 64), "--hash=sha512:" + strings.Repeat("b", 128)

func TestALockFileNamesPackagesWithVersionsAndHashesAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		line string // as pip gets it; empty: refused
		says string
	}{
		"plain":                    {"six==1.16.0 " + hashA, "six==1.16.0 " + hashA, ""},
		"as pip-compile writes it": {"# by pip-compile\nsix==1.16.0 \\\n    " + hashA + " \\\n    " + hashB + "\n    # via dateutil\n", "six==1.16.0 " + hashA + " " + hashB, ""},
		"with Windows' line ends":  {"six==1.16.0 \\\r\n    " + hashA + "\r\n", "six==1.16.0 " + hashA, ""},
		"a condition":              {`colorama==0.4.6 ; sys_platform == "win32" and python_version >= "3.8" ` + hashA, `colorama==0.4.6 ; sys_platform == "win32" and python_version >= "3.8" ` + hashA, ""},
		"extras and a local":       {"Torch_Vision[cuda]==2.3.0+cu121 " + hashA, "Torch_Vision[cuda]==2.3.0+cu121 " + hashA, ""},

		"nothing":                       {"\n# nothing\n", "", "names no package"},
		"no hash":                       {"six==1.16.0\n", "", "no hash"},
		"one of two without":            {"a==1 " + hashA + "\nb==1\n", "", "line 2"},
		"a hash that is none":           {"six==1.16.0 --hash=sha256:abc", "", "beside --hash"},
		"a weak hash":                   {"six==1.16.0 --hash=md5:" + strings.Repeat("a", 32), "", "beside --hash"},
		"an empty hash":                 {"six==1.16.0 --hash=", "", ""},
		"a range":                       {"six>=1.16.0 " + hashA, "", "not NAME==VERSION"},
		"a wildcard":                    {"six==1.* " + hashA, "", "not NAME==VERSION"},
		"no version":                    {"six " + hashA, "", "not NAME==VERSION"},
		"an arbitrary equality":         {"six===1.16.0 " + hashA, "", "not NAME==VERSION"},
		"another index":                 {"--index-url https://evil.example/simple\nsix==1.16.0 " + hashA, "", "an option"},
		"another index, short":          {"-i https://evil.example/simple\n", "", "an option"},
		"another index behind":          {"six==1.16.0 " + hashA + " --index-url=https://evil.example", "", "beside --hash"},
		"an index more":                 {"--extra-index-url=https://evil.example/simple", "", "an option"},
		"links":                         {"--find-links /tmp", "", "an option"},
		"another file":                  {"-r /etc/shadow", "", "an option"},
		"a constraint":                  {"-c /etc/shadow", "", "an option"},
		"editable":                      {"-e git+https://evil.example/x#egg=x", "", "an option"},
		"trust":                         {"--trusted-host evil.example", "", "an option"},
		"sources":                       {"--no-binary :all:", "", "an option"},
		"options of a build":            {"six==1.16.0 --config-settings=x=y " + hashA, "", "beside --hash"},
		"a URL":                         {"https://evil.example/six.whl " + hashA, "", "not NAME==VERSION"},
		"a URL by name":                 {"six @ https://evil.example/six.whl " + hashA, "", "not NAME==VERSION"},
		"a path":                        {"./six-1.16.0-py3-none-any.whl " + hashA, "", "not NAME==VERSION"},
		"a file":                        {"file:///tmp/six.whl " + hashA, "", "not NAME==VERSION"},
		"a variable":                    {"six==${VERSION} " + hashA, "", "not NAME==VERSION"},
		"a variable in a condition":     {`six==1 ; python_version == "${HOME}" ` + hashA, "", "condition"},
		"an empty condition":            {"six==1 ; " + hashA, "", "condition"},
		"an option in the next line":    {"six==1 \\\n --index-url https://evil.example " + hashA, "", "beside --hash"},
		"a hash in a comment":           {"six==1 # " + hashA, "", "no hash"},
		"two versions":                  {"six==1 " + hashA + "\nSIX==2 " + hashA, "", "twice"},
		"two versions, one conditional": {"six==1 " + hashA + "\nsix==2 ; python_version < \"3\" " + hashA, "", "twice"},
		"a control character":           {"six==1\x00 " + hashA, "", "character"},
		"a character that looks alike":  {"s\u0456x==1 " + hashA, "", "character"},
		"an escape":                     {"six==1 \x1b[2J " + hashA, "", "character"},
	} {
		all, err := parseLock([]byte(c.text))
		if c.line == "" {
			if taskcatalog.CodeOf(err, "") != CodeLockRefused || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %+v, %v, want %q", name, all, err, c.says)
			}
			continue
		}
		if err != nil || len(all) != 1 || all[0].line() != c.line+"\n" {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	both := "six==1 ; python_version < \"3\" " + hashA + "\nsix==2 ; python_version >= \"3\" " + hashB
	if all, err := parseLock([]byte(both)); err != nil || len(all) != 2 {
		t.Errorf("two versions with a condition each: %+v, %v", all, err)
	}
	if _, err := parseLock([]byte(strings.Repeat("x", 200<<10))); err == nil || len(err.Error()) > 400 {
		t.Errorf("got %.500v", err)
	}
}

// Whatever a lock file holds, pip gets only lines that say the same to this parser, and hold no option
// but hashes.
func FuzzLock(f *testing.F) {
	for _, seed := range []string{
		"six==1.16.0 \\\n    " + hashA + "\n    # via x\n", `a==1 ; python_version < "3" ` + hashA, "-i https://evil.example\n",
		"a==1 " + hashA + " --index-url=x", "a @ https://x " + hashA, "a==1 \\\n#\\\n" + hashA, "a[b,c]==1!2+d " + hashB,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		all, err := parseLock(raw)
		if err != nil {
			return
		}
		for _, e := range all {
			line := e.line()
			again, err := parseLock([]byte(line))
			if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], e) {
				t.Fatalf("%q of %q reads as %+v, %v", line, raw, again, err)
			}
			for i, word := range strings.Fields(line) {
				if i == 0 && strings.HasPrefix(word, "-") || strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--hash=sha") {
					t.Fatalf("%q of %q has the option %q", line, raw, word)
				}
			}
			if strings.Count(line, "\n") != 1 || strings.ContainsAny(line, "#$\\\r") || len(e.hashes) == 0 {
				t.Fatalf("%q of %q is no plain line with a hash", line, raw)
			}
		}
	})
}
