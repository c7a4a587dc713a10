package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Change replaces Was by Is in a source file of this repository. Was must occur exactly once.
type Change struct{ File, Was, Is string }

// ChangeBroker makes the next start of the broker use a modified program: it has the site's keys
// and database, and behaves differently. Without changes the next start uses the unmodified
// program.
func (l *Lab) ChangeBroker(ctx context.Context, changes ...Change) error {
	l.changed = ""
	if len(changes) == 0 {
		return nil
	}
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for i, c := range changes {
		file := filepath.Join(root, c.File)
		raw, err := os.ReadFile(file)
		if n := bytes.Count(raw, []byte(c.Was)); err == nil && n != 1 {
			err = fmt.Errorf("cannot change %s: it has %q %d times", c.File, c.Was, n)
		}
		if err != nil {
			return err
		}
		overlay.Replace[file] = l.Path(fmt.Sprintf("changed-%d.go", i))
		if err := os.WriteFile(overlay.Replace[file], bytes.Replace(raw, []byte(c.Was), []byte(c.Is), 1), 0o600); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(overlay)
	program, list := l.Path("changed-broker"), l.Path("changed.json")
	if err = errors.Join(err, os.WriteFile(list, raw, 0o600)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-overlay", list, "-o", program, "./broker/cmd/hostler-broker")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build a changed broker: %w\n%s", err, out)
	}
	l.changed = program
	return nil
}

// repository is the folder of this repository.
func repository(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the repository: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}
