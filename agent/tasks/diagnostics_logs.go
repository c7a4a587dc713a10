package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// maxLogLine is how long a line of a log may be in an archive.
const maxLogLine = 2048

// journal is what the agent's own units wrote, the newest first. Whoever is root on the
// node may have written any of it.
func (d *diagnosis) journal(ctx context.Context) (collected, error) {
	res, err := d.Commands.Run(ctx, profiles.LogTools()["agent_journal"], map[string]any{"since": fmt.Sprintf("@%d", max(d.since.Unix(), 0))})
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
		unreadable = max(unreadable-1, 0) // the line at the cap
	}
	if err == nil && unreadable > 0 {
		err = fmt.Errorf("%d lines of the journal are none", unreadable)
	}
	return c, err
}

// line adds one line of a log, redacted as it was written and then made fit to show.
func (d *diagnosis) line(out *strings.Builder, text string) (redacted int) {
	text, redacted = d.redact.Text(text)
	out.WriteString(taskcatalog.Clean(text, maxLogLine))
	out.WriteByte('\n')
	return redacted
}

// journalLine makes a line of an entry as journalctl -o json prints it. A field is
// text, a list of bytes where it is no valid text, a list of these where there are
// several, or null where it is too long.
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

// gpuLine tells what the kernel logs about GPUs, their drivers and the bus they are on.
var gpuLine = regexp.MustCompile(`(?i)\b(NVRM|Xid|nvidia[a-z_-]*|nvlink|nvswitch|amdgpu|amdkfd|kfd|nouveau|AER|PCIe Bus Error|GPU)\b`)

// kernel is what the kernel itself logged about GPUs in this boot, the oldest first.
func (d *diagnosis) kernel(context.Context) (collected, error) {
	lines, err := d.Machine.KernelHistory(gpuLine.MatchString)
	// The oldest are left out, so that what is left fits.
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
