package terminal

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// The kernel decides, for the user, whether the home may be entered; root's own access does not
// count, and neither does a file put in the home's place.
func TestAProgramStartsInAHomeThatItsUserMayEnter(t *testing.T) {
	leavesNothing(t)
	who := account{}
	who.UID, who.GID, who.Name = uint32(os.Getuid()), uint32(os.Getgid()), "alice"
	if who.UID == 0 {
		who.UID, who.GID = 65534, 65534
	}
	base, err := os.MkdirTemp("/tmp", "homes") // reachable by the user, unlike the test's own directory
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	ok(t, os.Chmod(base, 0o755))
	at := func(name string) string { return filepath.Join(base, name) }
	ok(t, os.Mkdir(at("his"), 0o755))
	ok(t, os.Mkdir(at("closed"), 0o700))
	if os.Getuid() != 0 {
		ok(t, os.Chmod(at("closed"), 0))
	}
	ok(t, os.WriteFile(at("file"), nil, 0o644))
	ok(t, os.Symlink(at("closed"), at("into-closed")))
	ok(t, os.Symlink(at("his"), at("into-his")))
	live, err := machine.Open("/")
	ok(t, err)
	t.Cleanup(func() { live.Close() })
	for home, want := range map[string]string{
		"his": at("his"), "into-his": at("his"), "closed": "/", "into-closed": "/", "file": "/", "missing": "/",
	} {
		who.Home = at(home)
		sh, err := startShell(live, start{account: who, file: "/bin/pwd", argv: []string{"pwd", "-P"}, env: []string{"HOME=" + who.Home}, size: frame.Resize{Columns: 80, Rows: 24}}, 0)
		if err != nil {
			t.Errorf("%s: %v", home, err)
			continue
		}
		exit := sh.Wait()
		said, err := io.ReadAll(sh)
		ok(t, err)
		ok(t, sh.Close())
		if got := strings.TrimSpace(string(said)); got != want || exit.Status != 0 {
			t.Errorf("in %s it starts in %q, want %q (%+v)", home, got, want, exit)
		}
	}
	if _, err := startShell(live, start{account: who, file: at("file"), argv: []string{"file"}, size: frame.Resize{Columns: 80, Rows: 24}}, 0); err == nil || !strings.Contains(err.Error(), at("file")) {
		t.Errorf("what cannot run is told as %v", err)
	}
}
