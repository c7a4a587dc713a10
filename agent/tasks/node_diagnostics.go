package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/redact"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// collected is the result of a part: text, or a value to be encoded as JSON.
type collected struct {
	text     string
	value    any
	redacted int
	cut      bool
}

// diagnosis collects one archive.
type diagnosis struct {
	*host.Host
	since  time.Time
	redact *redact.Redactor
}

// diagnosticsParts are the files of the archive, each with its maximum size in bytes. Together they
// fit an archive even if nothing can be compressed.
var diagnosticsParts = []struct {
	name    string
	most    int
	collect func(*diagnosis, context.Context) (collected, error)
}{
	{taskcatalog.DiagnosticsJournal, 192 << 10, (*diagnosis).journal},
	{taskcatalog.DiagnosticsKernel, 64 << 10, (*diagnosis).kernel},
	{taskcatalog.DiagnosticsFacts, 128 << 10, (*diagnosis).facts},
	{taskcatalog.DiagnosticsSlots, 16 << 10, (*diagnosis).slots},
	{taskcatalog.DiagnosticsLedger, 64 << 10, (*diagnosis).ledger},
}

// journalTime is the maximum age of a journal line if the task names none.
const journalTime = 24 * time.Hour

// partTime is the time limit of a part: a collector that hangs loses its own part, not the archive.
const partTime = 30 * time.Second

// diagnostics collects information that explains a node's misbehaviour. A missing part is reported
// as missing, and the others are collected all the same.
func diagnostics(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	since := journalTime
	if s := r.Params.(*taskcatalog.DiagnosticsParams).SinceSeconds; s > 0 {
		since = time.Duration(s) * time.Second
	}
	accounts, err := r.Host.Accounts.List()
	if err != nil {
		return nil, report, err
	}
	users := map[string]string{}
	for _, a := range accounts {
		users[a.Username] = fmt.Sprintf("[user %d]", a.UID)
	}
	d := &diagnosis{Host: r.Host, since: r.Host.Now().Add(-since), redact: redact.New(ownSecrets(r.Host), users)}
	res := &taskcatalog.DiagnosticsResult{}
	files := map[string][]byte{}
	for i, p := range diagnosticsParts {
		r.Step(p.name, i+1, len(diagnosticsParts))
		raw, part := d.part(ctx, p.name, p.most, p.collect)
		if ctx.Err() != nil {
			return nil, report, context.Cause(ctx)
		}
		if raw != nil {
			files[p.name] = raw
		}
		res.Parts = append(res.Parts, part)
	}
	if res.Archive, err = pack(res.Parts, files, r.Host.Now()); err != nil {
		return nil, report, err
	}
	res.Digest, res.Bytes = pki.Digest(res.Archive), len(res.Archive)
	return res, report, nil
}

// part collects a part and bounds it. Only redacted text leaves this function.
func (d *diagnosis) part(
	ctx context.Context, name string, most int, collect func(*diagnosis, context.Context) (collected, error),
) (raw []byte, part taskcatalog.DiagnosticsPart) {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	part.Name = name
	c, err := collect(d, ctx)
	if err != nil {
		said, _ := d.redact.Text(err.Error())
		part.Missing = taskcatalog.Clean(said, 300)
	}
	if c.value != nil {
		c.text, part.Redacted, err = d.document(c.value)
		if err != nil {
			part.Missing = taskcatalog.Clean("the part cannot be written as JSON: "+err.Error(), 300)
			return nil, part
		}
		if len(c.text) > most {
			part.Missing = fmt.Sprintf("the part has %d bytes, more than its limit of %d bytes in the archive", len(c.text), most)
			return nil, part
		}
	}
	part.Redacted += c.redacted
	part.Cut = c.cut
	if len(c.text) > most {
		c.text, part.Cut = c.text[:most], true
		c.text = c.text[:strings.LastIndexByte(c.text, '\n')+1]
	}
	if c.text == "" && part.Missing != "" {
		return nil, part
	}
	part.Bytes = len(c.text)
	return []byte(c.text), part
}

// document encodes a value as JSON, with secrets redacted.
func (d *diagnosis) document(v any) (string, int, error) {
	raw, err := taskcatalog.Encode(v)
	if err != nil {
		return "", 0, err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return "", 0, err
	}
	plain, count := d.redact.Value(plain)
	raw, err = json.MarshalIndent(plain, "", "  ")
	return string(raw) + "\n", count, err
}

// facts gathers the facts of now. With a tenant on the node nobody asks the GPUs: facts returns the
// facts kept from before.
func (d *diagnosis) facts(ctx context.Context) (collected, error) {
	accounts, err := d.Accounts.List()
	if err != nil {
		return collected{}, err
	}
	if len(accounts) > 0 {
		f, ok, err := d.Ledger.Facts()
		if err != nil {
			return collected{}, fmt.Errorf("a tenant is on the node, and the recorded facts cannot be read: %w", err)
		}
		if !ok {
			return collected{}, errors.New("a tenant is on the node, and no facts are recorded")
		}
		return collected{value: map[string]any{"seen": "before the tenant", "facts": f}}, nil
	}
	f, err := d.Facts(ctx)
	return collected{value: map[string]any{"seen": "now", "facts": f}}, err
}

// ledgerTasks is the maximum number of the ledger's tasks in an archive.
const ledgerTasks = 150

// ledger collects the state of the agent's tasks, and the allocations that it holds.
func (d *diagnosis) ledger(context.Context) (collected, error) {
	tasks, more, err := d.Ledger.LatestTasks(ledgerTasks)
	if err != nil {
		return collected{}, err
	}
	type allocation struct {
		AllocationID string    `json:"allocation_id"`
		UID          uint32    `json:"uid"`
		CreatedAt    time.Time `json:"created_at"`
	}
	accounts, err := d.Accounts.List()
	if err != nil {
		return collected{}, err
	}
	allocations := []allocation{}
	for _, a := range accounts {
		allocations = append(allocations, allocation{a.AllocationID, a.UID, a.CreatedAt})
	}
	var stopped []string
	if d.Stopped != nil {
		if stopped, err = d.Stopped.StoppedUnits(); err != nil {
			return collected{}, err
		}
	}
	return collected{value: map[string]any{
		"drained": d.Marks.Drained(), "allocations": allocations, "stopped_units": stopped, "tasks": tasks, "tasks_omitted": more,
	}}, nil
}
