package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

const aToken = "Zx81-TOKEN-of-the-bucket-9876543210"

// aSecret is a secret as brokers give it: JSON with the token in it.
const aSecret = `{"token":"` + aToken + `"}`

const withSecret = `[` + mints + `,{"id":"pull","kind":"artifact.pull_blob","attempts":2,"with":{"from":"s3","source":"models/w","digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","root":"/var/lib/models","name":"w","credential":{"from":"steps.key"}}},
	{"id":"end","kind":"gpu.driver.validate"}]`

// vault is a lab whose secrets and whose every output are watched.
type vault struct {
	*lab
	memory [][]byte // of each secret that was minted
	log    bytes.Buffer
}

func newVault(t *testing.T) *vault {
	v := &vault{lab: newLab(t)}
	v.host.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewDevelopmentEncoderConfig()), zapcore.AddSync(&v.log), zap.DebugLevel))
	v.mint = func(string, string) ([]byte, error) {
		v.memory = append(v.memory, []byte(aSecret))
		return v.memory[len(v.memory)-1], nil
	}
	v.kinds["credential.mint"] = steps.Kind{Do: func(ctx context.Context, s *steps.Step) (steps.Proof, error) {
		value, err := s.Mint(ctx)
		if err != nil {
			return steps.Proof{}, err
		}
		return steps.Proof{Secret: steps.NewSecret(value, s.Mint)}, nil
	}}
	v.kinds["gpu.driver.validate"] = gives("", new(int))
	return v
}

// holds fails if the secret is in anything that leaves the process, or still in its memory.
func (v *vault) holds(name string, e outcome) {
	v.Helper()
	result, err1 := json.Marshal(e.result)
	report, err2 := json.Marshal(e.report)
	if err := errors.Join(err1, err2); err != nil {
		v.Fatal(err)
	}
	message := ""
	if e.err != nil {
		message = e.err.Error()
	}
	for where, text := range map[string]string{
		"the result": string(result), "the report": string(report), "the error": message, "the log": v.log.String(),
		"the journal": string(bytes.Join(slices.Collect(mapValues(v.book.kept)), nil)), "the progress": strings.Join(v.said, "\n"),
	} {
		if strings.Contains(text, aToken) {
			v.Errorf("%s: the secret is in %s: %s", name, where, text)
		}
	}
	for i, m := range v.memory {
		if !bytes.Equal(m, make([]byte, len(m))) {
			v.Errorf("%s: secret %d is in memory: %q", name, i, m)
		}
	}
}

func mapValues(m map[string][]byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

func TestASecretIsNowhereAfterItsTaskHoweverThatEnds(t *testing.T) {
	use := func(s *steps.Step, do func(token string) error) error {
		return s.Args.Secret("credential").Use(func(value []byte) error {
			var c struct{ Token string }
			if err := json.Unmarshal(value, &c); err != nil {
				return err
			}
			return do(c.Token)
		})
	}
	for _, c := range []struct {
		name string
		pull func(ctx context.Context, v *vault, s *steps.Step, cancel context.CancelCauseFunc) (steps.Proof, error)
		want string
	}{
		{"success", func(ctx context.Context, _ *vault, s *steps.Step, _ context.CancelCauseFunc) (steps.Proof, error) {
			err := use(s, func(token string) error { s.Progress(50, "with "+token); return nil })
			return steps.Proof{Output: "/var/lib/models/w", Message: "pulled"}, errors.Join(err, s.Args.Secret("credential").Renew(ctx))
		}, "key succeeded, pull succeeded, end succeeded"},
		{"failure", func(_ context.Context, _ *vault, s *steps.Step, _ context.CancelCauseFunc) (steps.Proof, error) {
			return steps.Proof{}, use(s, func(token string) error { return errors.New("GET https://x/?sig=" + token + ": 403") })
		}, "key succeeded, pull failed handler_failed, pull failed handler_failed"},
		{"cancel", func(ctx context.Context, _ *vault, s *steps.Step, cancel context.CancelCauseFunc) (steps.Proof, error) {
			cancel(errCanceled)
			return steps.Proof{}, use(s, func(token string) error { <-ctx.Done(); return errors.New("cut off: " + token) })
		}, "key succeeded, pull canceled canceled"},
		{"panic", func(_ context.Context, _ *vault, s *steps.Step, _ context.CancelCauseFunc) (steps.Proof, error) {
			return steps.Proof{}, use(s, func(token string) error { panic(token) })
		}, "key succeeded, pull failed handler_panicked, pull failed handler_panicked"},
		{"an output", func(_ context.Context, _ *vault, s *steps.Step, _ context.CancelCauseFunc) (p steps.Proof, err error) {
			return p, use(s, func(token string) error { p.Output = "/var/lib/" + token; return nil })
		}, "key succeeded, pull failed handler_failed, pull failed handler_failed"},
		{"a checkpoint", func(_ context.Context, _ *vault, s *steps.Step, _ context.CancelCauseFunc) (steps.Proof, error) {
			return steps.Proof{}, use(s, func(token string) error { return s.Checkpoint.Save([]byte(token)) })
		}, "key succeeded, pull failed handler_failed, pull failed handler_failed"},
		{"stop", func(ctx context.Context, _ *vault, s *steps.Step, cancel context.CancelCauseFunc) (steps.Proof, error) {
			cancel(host.ErrStopping)
			return steps.Proof{}, use(s, func(token string) error { <-ctx.Done(); return errors.New("cut off: " + token) })
		}, "key succeeded, pull failed step_interrupted"},
	} {
		v := newVault(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		v.kinds["artifact.pull_blob"] = steps.Kind{Do: func(ctx context.Context, s *steps.Step) (steps.Proof, error) { return c.pull(ctx, v, s, cancel) }}
		e := v.run(ctx, "t-1", aPlan(t, withSecret))
		if story(e) != c.want || len(v.memory) == 0 || e.result.Wiped != 1 {
			t.Errorf("%s: %s; %d wiped: %v", c.name, story(e), e.result.Wiped, e.err)
		}
		if d := e.report.Dispositions; len(d) != 1 || d[0].Path != "steps.key" || d[0].Action != taskcatalog.ActionRemoved {
			t.Errorf("%s: %+v", c.name, e.report)
		}
		v.holds(c.name, e)
	}
}

func TestASecretIsMintedAgainOnlyWhereAStepThatIsLeftNeedsIt(t *testing.T) {
	v := newVault(t)
	pulls, broken := 0, true
	v.kinds["artifact.pull_blob"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		if pulls++; pulls == 1 {
			crash()
		}
		return steps.Proof{Output: "/var/lib/models/w"}, nil
	}}
	v.kinds["gpu.driver.validate"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		if broken {
			return steps.Proof{}, errors.New("broken")
		}
		return steps.Proof{}, nil
	}}
	p := aPlan(t, withSecret)
	if e := v.run(t.Context(), "t-1", p); !e.crashed {
		t.Fatal(e.err)
	}
	// The process that had the secret is gone: the next asks for another.
	e := v.run(t.Context(), "t-1", p)
	if story(e) != "key succeeded, pull failed step_interrupted, key succeeded, pull succeeded, end failed handler_failed" || len(v.memory) != 2 {
		t.Errorf("%s; minted %d times", story(e), len(v.memory))
	}
	if n := e.result.Steps[2].AttemptNumber; n != 2 {
		t.Errorf("the second secret is attempt %d", n)
	}
	broken = false
	e = v.run(t.Context(), "t-2", p)
	if e.err != nil || story(e) != "key succeeded earlier, pull succeeded earlier, end succeeded" || len(v.memory) != 2 || e.result.Wiped != 0 {
		t.Errorf("%s: %v; minted %d times", story(e), e.err, len(v.memory))
	}
	v.holds("in the end", e)
}
