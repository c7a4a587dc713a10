package journal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/journal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestALineSaysWhatAndToWhat(t *testing.T) {
	var out bytes.Buffer
	log := Plain(&out, zap.InfoLevel).With(zap.String("node", "n-1"))
	log.Debug("not this")
	log.Warn("cannot report", zap.String("task", "t-1"), zap.Error(errors.New("no route")), zap.Duration("again_in", 2*time.Second), zap.String("empty", ""))
	got := out.String()
	if !strings.HasSuffix(got, "WARN  cannot report node=n-1 task=t-1 error=\"no route\" again_in=2s\n") || strings.Contains(got, "not this") {
		t.Fatalf("%q", got)
	}
}

func TestATenantsTextDoesNotReachTheTerminalAsItIs(t *testing.T) {
	var out bytes.Buffer
	Plain(&out, zap.InfoLevel).Info("process \x1b[2J\nforged line", zap.String("path", "/home/\x1b]0;owned\x07"))
	if strings.ContainsAny(strings.TrimSuffix(out.String(), "\n"), "\x1b\x07\n") {
		t.Fatalf("%q", out.String())
	}
}

func TestTheJournalGetsTheFields(t *testing.T) {
	var fields map[string]string
	var got sd.Priority
	log := zap.New(&core{LevelEnabler: zap.InfoLevel, write: func(e zapcore.Entry, _ string, f map[string]string) error {
		fields, got = f, priority(e.Level)
		return nil
	}})
	log.Error("x", zap.String("task", "t-1"), zap.Int("attempt", 2))
	if fields["HOSTLER_TASK"] != "t-1" || fields["HOSTLER_ATTEMPT"] != "2" || got != sd.PriErr {
		t.Fatal(fields, got)
	}
}
