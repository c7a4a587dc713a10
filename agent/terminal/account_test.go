package terminal

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func TestNobodyGetsAShellWhoShouldHaveNone(t *testing.T) {
	root := t.TempDir()
	ok(t, os.Mkdir(root+"/etc", 0o755))
	ok(t, os.Mkdir(root+"/run", 0o755))
	write(t, root, "etc/passwd", strings.Join([]string{
		"root:x:0:0::/root:/bin/bash",
		"toor:x:0:1000::/root:/bin/bash",
		"wheel:x:1001:0::/home/wheel:/bin/bash",
		"half:x:1002:1002::/home/half:/bin/bash",
		"alice:x:1003:1003::/home/alice:/bin/bash",
		"alice:x:0:0::/home/alice:/bin/bash", // a second line for the same name is ignored
		"daemon:x:1004:1004::/:/usr/sbin/nologin",
		"none:x:1005:1005::/home/none:",
		"relative:x:1006:1006::/home/relative:bin/bash",
		"around:x:1007:1007::/home/around:/bin/../bin/bash",
		"comment:x:1008:1008::/home/comment:# what may be",
		"homeless:x:1009:1009:::/bin/bash",
		"inject:x:1010:1010::/home/x\x1b]0;y:/bin/bash",
		"Capital:x:1011:1011::/home/c:/bin/bash",
		"-dash:x:1012:1012::/home/d:/bin/bash",
		"listed:x:1013:1013::/home/l:/usr/sbin/nologin",
		"wrong:x:1014:1014::/home/w:/bin/false",
		"expired:x:1015:1015::/home/e:/bin/bash",
		"garbled:x:1016:1016::/home/g:/bin/bash",
		"sue:x:1017:1017::/home/sue:/bin/bash",
		"dora:x:1018:999::/home/dora:/bin/bash",
	}, "\n")+"\n")
	write(t, root, "etc/group", "root:x:0:half\nvideo:x:44:alice\nother:x:45:alicexy\nsudo:x:27:bob,sue\ndocker:x:999:\nshadow:x:42:\n")
	write(t, root, "etc/shells", "# what may be\n/bin/bash\n/usr/sbin/nologin\n/bin/false\n")
	tomorrow := time.Now().Unix()/86400 + 1
	write(t, root, "etc/shadow", fmt.Sprintf("alice:!:20000:0:99999:7::%d:\nexpired:!:20000:0:99999:7::%d:\ngarbled:!:20000:0:99999:7::soon:\nroot:*:20000::::::\n", tomorrow, tomorrow-1))
	m, err := machine.Open(root)
	ok(t, err)
	defer m.Close()
	for name, code := range map[string]taskcatalog.Code{
		"root": CodeUserRefused, "toor": CodeUserRefused, "wheel": CodeUserRefused, "half": CodeUserRefused,
		"sue": CodeUserRefused, "dora": CodeUserRefused, // root by way of sudo, and of docker
		"daemon": CodeShellRefused, "none": CodeShellRefused, "relative": CodeShellRefused, "around": CodeShellRefused, "comment": CodeShellRefused,
		"listed": CodeShellRefused, "wrong": CodeShellRefused, "expired": CodeAccountExpired, "garbled": "",
		"homeless": CodeUserRefused, "inject": CodeUserRefused,
		"Capital": CodeUserRefused, "-dash": CodeUserRefused, "": CodeUserRefused, "alice\n": CodeUserRefused, "alice:x:0": CodeUserRefused,
		"../alice": CodeUserRefused, "alice\x00": CodeUserRefused, strings.Repeat("a", 32): CodeUserRefused, "bob": CodeUserUnknown,
	} {
		if a, err := findAccount(m, name, false, false); err == nil || taskcatalog.CodeOf(err, "") != code {
			t.Errorf("%q is let in as %+v (%v), want %s", name, a, err, code)
		}
	}
	a, err := findAccount(m, "alice", false, false)
	if err != nil || a.UID != 1003 || a.GID != 1003 || !slices.Equal(a.groups, []uint32{44}) || a.Shell != "/bin/bash" {
		t.Errorf("alice is %+v (%v)", a, err)
	}
	if a, err := findAccount(m, "root", true, false); err != nil || a.UID != 0 {
		t.Errorf("where the policy allows it, root is %+v (%v)", a, err)
	}
	for _, name := range []string{"sue", "dora"} {
		for _, may := range [][2]bool{{true, false}, {false, true}} {
			if a, err := findAccount(m, name, may[0], may[1]); err != nil {
				t.Errorf("where it was given (%v), %s is %+v (%v)", may, name, a, err)
			}
		}
	}
	if a, err := findAccount(m, "half", false, true); taskcatalog.CodeOf(err, "") != CodeUserRefused {
		t.Errorf("by sudo, one of root's group is let in as %+v (%v)", a, err)
	}
	for _, file := range []string{"etc/nologin", "run/nologin"} {
		write(t, root, file, "")
		if a, err := findAccount(m, "alice", false, false); taskcatalog.CodeOf(err, "") != CodeLoginsOff {
			t.Errorf("while %s is there, alice is %+v (%v)", file, a, err)
		}
		if a, err := findAccount(m, "root", true, false); err != nil {
			t.Errorf("while %s is there, root is %+v (%v)", file, a, err)
		}
		ok(t, os.Remove(root+"/"+file))
	}
	// No command runs as a user without a shell.
	o := Options{Root: root, User: "listed", Command: []string{"/bin/bash", "-c", "id"}, AllowRoot: true}
	if program, err := o.start(m); taskcatalog.CodeOf(err, "") != CodeShellRefused {
		t.Errorf("%+v runs (%v)", program, err)
	}
	write(t, root, "etc/passwd", "alice:x:1003:1003::/home/alice:/bin/bash\nno account\n")
	if a, err := findAccount(m, "alice", false, false); err == nil {
		t.Errorf("of a file that is none, alice is %+v", a)
	}
}

func TestTheEnvironmentTakesNothingThatIsNotAboutTheTerminal(t *testing.T) {
	alice := machine.User{Name: "alice", Home: "/home/alice", Shell: "/bin/bash"}
	for name, c := range map[string]struct {
		term   string
		locale map[string]string
	}{
		"a terminal that is a path":   {term: "../../tmp/x"},
		"a terminal with a variable":  {term: "xterm\nLD_PRELOAD=/tmp/x"},
		"a terminal that is a secret": {term: ".x"},
		"a terminal without end":      {term: strings.Repeat("x", 65)},
		"a library":                   {locale: map[string]string{"LD_PRELOAD": "/tmp/x.so"}},
		"a path":                      {locale: map[string]string{"PATH": "/tmp"}},
		"a name with a value":         {locale: map[string]string{"LC_ALL=x\nPATH": "y"}},
		"the path of locales":         {locale: map[string]string{"LOCPATH": "tmp"}},
		"a locale that is a path":     {locale: map[string]string{"LC_ALL": "../../tmp/x"}},
		"a locale with a line":        {locale: map[string]string{"LANG": "C\nPATH=/tmp"}},
		"a locale with a zero":        {locale: map[string]string{"LANG": "C\x00"}},
	} {
		if env, err := environ(alice, c.term, c.locale); taskcatalog.CodeOf(err, "") != CodeEnvRefused {
			t.Errorf("%s is taken: %q (%v)", name, env, err)
		}
	}
	env, err := environ(alice, "screen.xterm-256color", map[string]string{"LANG": "de_DE.UTF-8@euro", "LC_ALL": "C"})
	want := []string{
		"HOME=/home/alice", "USER=alice", "LOGNAME=alice", "SHELL=/bin/bash", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"TERM=screen.xterm-256color", "LANG=de_DE.UTF-8@euro", "LC_ALL=C",
	}
	if err != nil || !slices.Equal(env, want) {
		t.Errorf("%q (%v)", env, err)
	}
}

func TestACommandIsAProgramAndNoTextForAShell(t *testing.T) {
	root := t.TempDir()
	ok(t, os.MkdirAll(root+"/usr/bin", 0o755))
	write(t, root, "usr/bin/nvidia-smi", "")
	m, err := machine.Open(root)
	ok(t, err)
	defer m.Close()
	for _, command := range [][]string{
		{""}, {"./x"}, {"bin/x"}, {"../x"}, {"/usr/bin/../../tmp/x"}, {"/usr/bin/x\x1b[2J"}, {"nvidia-smi; id"}, {"nvidia-smi\n"}, {"missing"}, {"nvidia-smi", "a\x00b"}, {".."},
	} {
		file, args, err := argv(m, "/bin/bash", command)
		if err != nil && strings.Contains(err.Error(), "nvidia") {
			t.Errorf("of %q it is said: %v", command, err)
		}
		if taskcatalog.CodeOf(err, "") != CodeCommandRefused {
			t.Errorf("%q is run as %s %q (%v)", command, file, args, err)
		}
	}
	file, args, err := argv(m, "/bin/bash", []string{"nvidia-smi", "-q; id", "$HOME"})
	if err != nil || file != "/usr/bin/nvidia-smi" || !slices.Equal(args, []string{"nvidia-smi", "-q; id", "$HOME"}) {
		t.Errorf("%s %q (%v)", file, args, err)
	}
	if file, args, err := argv(m, "/bin/bash", nil); err != nil || file != "/bin/bash" || !slices.Equal(args, []string{"-bash"}) {
		t.Errorf("%s %q (%v)", file, args, err)
	}
}
