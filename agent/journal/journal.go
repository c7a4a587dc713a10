package journal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/journal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hostler/hostler/taskcatalog"
)

// maxValue bounds a field of a line, in bytes.
const maxValue = 4096

// New returns the log of this process.
func New(stderr *os.File, level zapcore.Level) *zap.Logger {
	if ok, err := sd.StderrIsJournalStream(); ok && err == nil {
		return zap.New(&core{LevelEnabler: level, write: toJournal})
	}
	return Plain(stderr, level)
}

// Plain returns a log that writes lines of text to w.
func Plain(w io.Writer, level zapcore.Level) *zap.Logger {
	var mu sync.Mutex
	return zap.New(&core{LevelEnabler: level, write: func(e zapcore.Entry, line string, _ map[string]string) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(w, "%s %-5s %s\n", e.Time.UTC().Format(time.RFC3339), e.Level.CapitalString(), line)
		return err
	}})
}

// core turns entries into a line and its fields.
type core struct {
	zapcore.LevelEnabler
	fields []zapcore.Field
	write  func(e zapcore.Entry, line string, fields map[string]string) error
}

// With is part of zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	clone := *c
	clone.fields = slices.Concat(c.fields, fields)
	return &clone
}

// Check is part of zapcore.Core.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write is part of zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	line := taskcatalog.Clean(e.Message, maxValue)
	named := map[string]string{}
	for _, f := range slices.Concat(c.fields, fields) {
		value := taskcatalog.Clean(text(f), maxValue)
		if value == "" {
			continue
		}
		named["HOSTLER_"+strings.ToUpper(f.Key)] = value
		if strings.ContainsAny(value, " =\"") {
			value = fmt.Sprintf("%q", value)
		}
		line += " " + f.Key + "=" + value
	}
	return c.write(e, line, named)
}

// Sync is part of zapcore.Core.
func (c *core) Sync() error { return nil }

// text formats a field's value for people.
func text(f zapcore.Field) string {
	enc := zapcore.NewMapObjectEncoder()
	f.AddTo(enc)
	switch v := enc.Fields[f.Key].(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

func toJournal(e zapcore.Entry, line string, fields map[string]string) error {
	return sd.Send(line, priority(e.Level), fields)
}

func priority(l zapcore.Level) sd.Priority {
	switch {
	case l >= zapcore.DPanicLevel:
		return sd.PriCrit
	case l == zapcore.ErrorLevel:
		return sd.PriErr
	case l == zapcore.WarnLevel:
		return sd.PriWarning
	case l == zapcore.DebugLevel:
		return sd.PriDebug
	}
	return sd.PriInfo
}
