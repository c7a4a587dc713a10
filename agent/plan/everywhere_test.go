package plan

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/download/downloadtest"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// aSignature is the secret part of a signed address.
const aSignature = "5f0ecd17a1b2c3d4e5f60718293a4b5c"

// traces finds secrets in what a process leaves below a directory: in the content of files, in names, and in the targets
// of links.
func traces(t *testing.T, dir string, secrets ...string) (found []string) {
	t.Helper()
	var forms [][]byte
	for _, s := range secrets {
		forms = append(forms, []byte(s), []byte(base64.StdEncoding.EncodeToString([]byte(s))))
	}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := []byte(name)
		switch {
		case d.Type().IsRegular():
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = append(append(text, 0), raw...)
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text = append(append(text, 0), to...)
		}
		for _, f := range forms {
			if bytes.Contains(text, f) {
				found = append(found, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// keeping is a step whose program copies a file of its process, as the kernel shows it.
func keeping(id, of, to string) string {
	return fmt.Sprintf(`{"id":%q,"kind":"command.exec_allowlisted","with":{"command":%q},"command":{"id":%q,"command":"/usr/bin/keep",
		"base_args":[%q,%q],"user":"root","timeout_seconds":30}}`, id, id, id, of, to)
}

// The kinds themselves carry out a plan with a secret: the pull asks for a signed address, with a token, and programs run
// while the secret is held. However the task ends, the secret is in no file, and in no argument or variable of a program.
func TestASecretIsInNoFileArgumentOrVariable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("programs are root's")
	}
	content := downloadtest.Content(3, 3<<20)
	for _, c := range []struct {
		name, want string
		digest     string
		stalls     bool // the source stops in the middle
		ends       error
	}{
		{"success", "key succeeded, vars succeeded, words succeeded, pull succeeded", downloadtest.Digest(content), false, nil},
		{"failure", "key succeeded, vars succeeded, words succeeded, pull failed digest_mismatch", downloadtest.Digest(nil), false, nil},
		{"cancel", "key succeeded, vars succeeded, words succeeded, pull canceled canceled", downloadtest.Digest(content), true, errCanceled},
		{"kill", "", downloadtest.Digest(content), true, errors.New("killed")},
	} {
		v := newVault(t)
		delete(v.kinds, "credential.mint") // the kind itself
		source := downloadtest.New(t, content)
		stalled, goOn := make(chan struct{}), make(chan struct{})
		source.Always = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("X-Amz-Signature") != aSignature || r.Header.Get("Authorization") != "Bearer "+aToken {
				t.Errorf("%s: the source is not shown the secret", c.name)
			}
			if c.stalls {
				w.Header().Set("Content-Length", fmt.Sprint(len(content)))
				_, _ = w.Write(content[:2<<20])
				_ = http.NewResponseController(w).Flush()
				close(stalled)
				<-goOn
				return
			}
			source.Serve(w, r)
		}
		v.host.Now = time.Now
		v.host.Downloads = download.Over(source.Transport())
		v.mint = func(string, string) ([]byte, error) {
			raw, err := json.Marshal(taskcatalog.BlobCredential{
				URLs:          map[string]string{"models/w": "https://models.s3.example/models/w?X-Amz-Signature=" + aSignature},
				Authorization: "Bearer " + aToken,
			})
			v.memory = append(v.memory, raw)
			return raw, err
		}
		temp := filepath.Join(v.dir, "tmp")
		keep, err := os.ReadFile("/bin/cp")
		hosttest.OK(t, errors.Join(err, os.MkdirAll(temp, 0o755), os.MkdirAll(v.dir+"/usr/bin", 0o755), os.Chmod(v.dir, 0o755)))
		hosttest.OK(t, os.WriteFile(v.dir+"/usr/bin/keep", keep, 0o755))
		t.Setenv("TMPDIR", temp)
		v.host.Commands, err = command.New(v.dir, time.Now)
		hosttest.OK(t, err)

		ctx, cancel := context.WithCancelCause(t.Context())
		if c.stalls && c.name == "kill" {
			kind, _ := steps.Lookup("artifact.pull_blob")
			v.kinds["artifact.pull_blob"] = steps.Kind{Do: func(ctx context.Context, s *steps.Step) (steps.Proof, error) {
				_, _ = kind.Do(ctx, s)
				crash()
				return steps.Proof{}, nil
			}}
		}
		ran, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			defer close(goOn)
			select {
			case <-stalled:
				cancel(c.ends)
			case <-ran:
			}
		}()
		p := aPlan(t, `[`+mints+`,`+keeping("vars", "/proc/self/environ", temp+"/vars")+`,`+keeping("words", "/proc/self/cmdline", temp+"/words")+`,
			{"id":"pull","kind":"artifact.pull_blob","with":{"from":"s3","source":"models/w","digest":"`+c.digest+`","root":"/var/lib/models","name":"w","credential":{"from":"steps.key"}}}]`)
		e := v.run(ctx, "t-1", p)
		close(ran)
		<-done
		if story(e) != c.want || e.crashed != (c.name == "kill") || len(v.memory) != 1 {
			t.Errorf("%s: %s: %v", c.name, story(e), e.err)
		}
		if !e.crashed {
			v.holds(c.name, e)
		} else if strings.Contains(v.log.String(), aToken) || strings.Contains(v.log.String(), aSignature) {
			t.Errorf("%s: the secret is in the log", c.name)
		}
		for id, raw := range v.book.kept {
			hosttest.Put(t, v.dir, "var/lib/journal/"+id, string(raw))
		}
		hosttest.Put(t, v.dir, "var/log/agent.log", v.log.String())
		if found := traces(t, v.dir, aToken, aSignature); len(found) > 0 {
			t.Errorf("%s: the secret is in %q", c.name, found)
		}
		for _, of := range []string{"/vars", "/words"} { // the programs have run, and what they were given was looked at
			if raw, err := os.ReadFile(temp + of); err != nil || len(raw) == 0 {
				t.Errorf("%s: %s of the programs: %q, %v", c.name, of, raw, err)
			}
		}
		hosttest.Put(t, v.dir, "planted/"+aSignature, "x")
		hosttest.Put(t, v.dir, "planted/token", "Bearer "+aToken)
		if found := traces(t, v.dir, aToken, aSignature); len(found) != 2 {
			t.Errorf("%s: planted secrets are found in %q", c.name, found)
		}
		hosttest.OK(t, v.host.Commands.Close())
	}
}
