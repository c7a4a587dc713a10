//go:build e2e

package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// holdsNowhere fails if a secret is anywhere in the guest but in the memory of processes, or anywhere at the
// broker: in a file, a core dump, the journal, an argument, an environment, an event, an evidence or an answer.
// A file with the secrets shows first that they would be found. More are commands whose answers are searched.
func (s *site) holdsNowhere(when string, secrets []string, more ...[]string) {
	s.t.Helper()
	const decoy = "/run/decoy"
	s.put(decoy, []byte("x"+strings.Join(secrets, "x")+"x"), 0o600)
	var all []string
	named := map[string]string{}
	for i, secret := range secrets {
		for j, spelling := range spellings(secret) {
			all = append(all, spelling)
			named[fmt.Sprintf("%s spelling %d of secret %d", when, j, i)] = spelling
		}
	}
	patterns := strings.Join(all, "\n")
	const grep = "grep --text --no-messages --fixed-strings --file=/dev/fd/3"
	// A core is where its process was, if nothing else was set.
	r, err := s.guest.RunWith(s.ctx, strings.NewReader(patterns), "sh", "-c", `{
		`+grep+` --recursive --files-with-matches --devices=skip /etc /var /run /tmp /dev/shm /root /home /srv /opt /usr/local < /dev/null
		`+grep+` --files-with-matches /core* /proc/[0-9]*/cmdline /proc/[0-9]*/environ < /dev/null
	} 3<&0; true`)
	if err != nil || strings.TrimSpace(r.Stdout) != decoy {
		s.t.Errorf("%s the secret is in\n%s(%v %s)", when, r.Stdout, err, r.Stderr)
	}
	s.root("rm", decoy)
	if r, err := s.guest.RunWith(s.ctx, strings.NewReader(patterns), "sh", "-c",
		"{ journalctl --all --no-pager --output=export < /dev/null | "+grep+" --count; } 3<&0; true"); err != nil || strings.TrimSpace(r.Stdout) != "0" {
		s.t.Errorf("%s the secret is in %s lines of the journal (%v)", when, r.Stdout, err)
	}
	s.brokerTellsNone(named, more...)
}

// brokerTellsNone searches the broker's data, logs and answers for secrets. More are commands whose answers
// are searched as well.
func (s *site) brokerTellsNone(secrets map[string]string, more ...[]string) {
	s.t.Helper()
	answers := map[string]string{"the broker's log": s.BrokerLog()}
	for _, args := range append(more, []string{"task", "list"}, []string{"audit", "list"}, []string{"events"}, []string{"status"}) {
		args = append(args, "-o", "json")
		answers["hostler "+strings.Join(args, " ")] = s.hostler(args...)
	}
	files := 0
	err := filepath.WalkDir(s.DataDir(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		answers[name] = string(raw)
		files++
		return err
	})
	if err != nil || files < 5 {
		s.t.Errorf("searched %d files of the broker's: %v", files, err)
	}
	for where, text := range answers {
		for what, secret := range secrets {
			if strings.Contains(text, secret) {
				s.t.Errorf("%s is in %s", what, where)
			}
		}
	}
}

// spellings returns the text and its base64 form at each of the three offsets.
func spellings(text string) []string {
	all := []string{text}
	for skip := range 3 {
		raw := []byte(text[skip:])
		all = append(all, base64.StdEncoding.EncodeToString(raw[:len(raw)/3*3]))
	}
	return all
}
