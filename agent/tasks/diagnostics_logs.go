package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// maxLogLine is the maximum length of a log line in an archive.
const maxLogLine = 2048

// journal collects the log lines of the agent's own units, newest first. A user with root on the
// node may have written any of them.
func (d *diagnosis) journal(ctx context.Context) (collected, error) {
	res, err := d.Commands.Run(ctx, profiles.LogTools()["agent_journal"],
		map[string]any{"since": fmt.Sprintf("@%d", max(d.since.Unix(), 0))})
	c := collected{cut: res.Stdout.Cut()}
	var out strings.Builder
	unreadable := 0
	for line := range bytes.Lines(res.Stdout.Kept) {
		text, ok := journalLine(line)
		if !ok {
			unreadable++
			continue
		}
		c.redacted += d.line(&out, text)
	}
	c.text = out.String()
	if c.cut {
		unreadable = max(unreadable-1, 0) // ignore the line at the cap
	}
	if err == nil && unreadable > 0 {
		err = fmt.Errorf("%d lines of the journal could not be parsed", unreadable)
	}
	return c, err
}

// line adds a line of a log: first redacted as written, then cleaned for display.
func (d *diagnosis) line(out *strings.Builder, text string) (redacted int) {
	text, redacted = d.redact.Text(text)
	out.WriteString(taskcatalog.Clean(text, maxLogLine))
	out.WriteByte('\n')
	return redacted
}

// journalLine formats an entry printed by journalctl -o json. A field is text; a list of bytes if
// the text is invalid; a list of these for several values; or null if the value is too long.
func journalLine(raw []byte) (string, bool) {
	var e map[string]json.RawMessage
	if json.Unmarshal(raw, &e) != nil {
		return "", false
	}
	micros, err := strconv.ParseInt(field(e["__REALTIME_TIMESTAMP"]), 10, 64)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%s <%s> %s[%s]: %s", time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z"),
		field(e["PRIORITY"]), field(e["SYSLOG_IDENTIFIER"]), field(e["_PID"]), field(e["MESSAGE"])), true
}

func field(raw json.RawMessage) string {
	var text string
	var octets []int
	switch {
	case len(raw) == 0:
		return ""
	case string(raw) == "null":
		return "(too long for the journal's reader)"
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &octets) == nil:
		b := make([]byte, len(octets))
		for i, o := range octets {
			b[i] = byte(o)
		}
		return string(b)
	}
	return string(raw)
}

// gpuLine matches the kernel's log lines about GPUs, their drivers and their bus.
var gpuLine = lazyregexp.New(`(?i)\b(NVRM|Xid|nvidia[a-z_-]*|nvlink|nvswitch|amdgpu|amdkfd|kfd|nouveau|AER|PCIe Bus Error|GPU)\b`)

// kernel collects the kernel's own log lines about GPUs in this boot, oldest first.
func (d *diagnosis) kernel(context.Context) (collected, error) {
	lines, err := d.Machine.KernelHistory(gpuLine.MatchString)
	// The oldest lines are left out, so that the rest fits.
	const most = 500
	c := collected{cut: len(lines) > most}
	if c.cut {
		lines = lines[len(lines)-most:]
	}
	var out strings.Builder
	for _, l := range lines {
		c.redacted += d.line(&out, fmt.Sprintf("[%13.6f] %s", l.Since.Seconds(), l.Text))
	}
	c.text = out.String()
	if err == nil && c.text == "" {
		c.text = "the kernel logged nothing about GPUs\n"
	}
	return c, err
}
