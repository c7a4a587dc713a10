package agent

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

const joinToken = "Jn7-TOKEN-of-the-cluster-0123456789"

// anOperation is a plan with a secret, a file, a restart of the machine and another file.
var anOperation = strings.ReplaceAll(`{"operation_id":"op-1","attempt":1,"operation":"a.test@v1","definition_digest":"DIGEST","inputs_digest":"DIGEST","deadline_seconds":3600,"steps":[
	{"id":"key","kind":"credential.mint","timeout_seconds":60,"attempts":2,"with":{"type":"cluster_join_token","scope":"slurm"}},
	{"id":"one","kind":"file.render","timeout_seconds":60,"attempts":1,"with":{"root":"/etc/demo","name":"one","template":"{{.n}}","values":{"n":1}}},
	{"id":"boot","kind":"host.reboot","timeout_seconds":900,"attempts":1},
	{"id":"two","kind":"file.render","timeout_seconds":60,"attempts":1,"with":{"root":"/etc/demo","name":"two","template":"{{.file}}","values":{"file":{"from":"steps.one"}}}}]}`,
	"DIGEST", "sha256:"+strings.Repeat("0", 64))

// An operation restarts the machine under its agent. The agent of the next boot ends it, once, with the
// rows of both.
func TestAnOperationGoesOnAfterItHasRestartedTheMachine(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a file of root's needs root")
	}
	for name, end := range map[string]func(*process){"stopped": (*process).quit, "killed": (*process).kill} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				handler, _ := tasks.Lookup("operation.run", 1)
				l.handle("operation.run@1", handler)
				l.broker.Secrets = map[string]string{taskcatalog.CredentialClusterJoin: joinToken}
				l.systemdOf().OnReboot = func() error { return nil }
				p := l.start()
				q := l.broker.Enqueue(l.nodeID(p), "operation.run", anOperation)
				l.until("the machine is asked to restart", func() bool { return l.systemdOf().HasAsked("reboot") })
				hosttest.Put(t, l.config.Machine.Dir(), "proc/sys/kernel/random/boot_id", "another boot\n")
				end(p)
				l.start()
				r := l.broker.Wait(q, time.Hour)
				wantResult(t, r, taskcatalog.OutcomeSucceeded, "")
				var res taskcatalog.OperationResult
				if err := taskcatalog.DecodeStrict(r.Result, &res); err != nil {
					t.Fatal(err)
				}
				var rows []string
				for _, s := range res.Steps {
					rows = append(rows, s.ID+" "+string(s.Status))
				}
				if got := strings.Join(rows, ", "); got != "key succeeded, one succeeded, boot succeeded, two succeeded" {
					t.Error(got)
				}
				if got := hosttest.Read(t, l.config.Machine.Dir(), "etc/demo/two"); got != "/etc/demo/one" {
					t.Errorf("the last file has %q", got)
				}
				l.broker.Lock()
				minted := l.broker.Minted
				l.broker.Unlock()
				if len(minted) != 1 || minted[0].StepID != "key" || minted[0].CredentialType != taskcatalog.CredentialClusterJoin {
					t.Errorf("minted %+v", minted)
				}
				l.lacks(joinToken)
			})
		})
	}
}

// A machine takes longer to start than a lease lasts, and its network comes after its agent. A step that
// needs a secret waits for both, and uses up no attempt.
func TestAStepGetsItsSecretAfterALongRestart(t *testing.T) {
	inBubble(t, func(l *lab) {
		handler, _ := tasks.Lookup("operation.run", 1)
		l.handle("operation.run@1", handler)
		l.broker.Secrets = map[string]string{taskcatalog.CredentialClusterJoin: joinToken}
		l.systemdOf().OnReboot = func() error { return nil }
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "operation.run", strings.Replace(anOperation, `{"id":"two","kind":"file.render","timeout_seconds":60,"attempts":1,"with":{"root":"/etc/demo","name":"two","template":"{{.file}}","values":{"file":{"from":"steps.one"}}}}`,
			`{"id":"late","kind":"credential.mint","timeout_seconds":60,"attempts":1,"with":{"type":"cluster_join_token","scope":"slurm"}}`, 1))
		l.until("the machine is asked to restart", func() bool { return l.systemdOf().HasAsked("reboot") })
		hosttest.Put(t, l.config.Machine.Dir(), "proc/sys/kernel/random/boot_id", "another boot\n")
		p.quit()
		time.Sleep(10 * time.Minute)
		l.broker.GoAway()
		l.start()
		time.Sleep(20 * time.Second)
		l.broker.ComeBack()
		r := l.broker.Wait(q, time.Hour)
		wantResult(t, r, taskcatalog.OutcomeSucceeded, "")
		var res taskcatalog.OperationResult
		if err := taskcatalog.DecodeStrict(r.Result, &res); err != nil || len(res.Steps) != 4 || res.Steps[3].ID != "late" || res.Steps[3].AttemptNumber != 1 {
			t.Errorf("%s, %v", r.Result, err)
		}
		l.lacks(joinToken)
	})
}

func TestAnOperationThatIsCanceledTellsWhatItDid(t *testing.T) {
	inBubble(t, func(l *lab) {
		handler, _ := tasks.Lookup("operation.run", 1)
		l.handle("operation.run@1", handler)
		l.broker.Secrets = map[string]string{taskcatalog.CredentialClusterJoin: joinToken}
		l.systemdOf()
		p := l.start()
		plan := strings.Replace(anOperation, `"kind":"file.render","timeout_seconds":60,"attempts":1,"with":{"root":"/etc/demo","name":"one","template":"{{.n}}","values":{"n":1}}`,
			`"kind":"host.reboot","timeout_seconds":900,"attempts":1`, 1)
		plan = strings.Replace(plan, `{"from":"steps.one"}`, "2", 1)
		q := l.broker.Enqueue(l.nodeID(p), "operation.run", plan)
		l.until("the machine is asked to restart", func() bool { return l.systemdOf().HasAsked("reboot") })
		l.broker.Cancel(q)
		r := l.broker.Wait(q, time.Hour)
		wantResult(t, r, taskcatalog.OutcomeCanceled, taskcatalog.CodeCanceled)
		var res taskcatalog.OperationResult
		if err := taskcatalog.DecodeStrict(r.Result, &res); err != nil || len(res.Steps) != 2 || res.Wiped != 1 || res.Steps[1].Status != taskcatalog.StepCanceled {
			t.Errorf("%s, %v", r.Result, err)
		}
		l.lacks(joinToken)
	})
}

// systemdOf is the systemd of the machine.
func (l *lab) systemdOf() *hosttest.Systemd {
	if l.config.Systemd == nil {
		l.config.Systemd = &hosttest.Systemd{}
	}
	return l.config.Systemd.(*hosttest.Systemd)
}

// lacks fails if a file of the agent or of the machine has the secret.
func (l *lab) lacks(secret string) {
	l.t.Helper()
	files := 0
	for _, dir := range []string{l.config.StateDir, l.config.Machine.Dir()} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(name)
			if files++; bytes.Contains(raw, []byte(secret)) {
				l.t.Errorf("%s has the secret", name)
			}
			return err
		})
		if err != nil {
			l.t.Fatal(err)
		}
	}
	if files < 5 {
		l.t.Fatalf("only %d files", files)
	}
}
