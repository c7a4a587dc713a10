//go:build e2e

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/taskcatalog"
)

// holds checks the invariants after any end of an update: the agent works, the broker knows its
// version, and each task ran once.
func (r *releases) holds(version string) {
	r.t.Helper()
	r.runs(version)
	r.known(version)
	r.ranOnce()
}

// runs checks the node's version, as the node and as the kernel report it.
func (r *releases) runs(version string) {
	r.t.Helper()
	if exe := r.root("readlink", r.exe()); !strings.HasSuffix(exe, "/versions/"+version+"/hostler-agent") {
		r.t.Errorf("%s runs, want %s", exe, version)
	}
	r.says(version)
}

// exe is the kernel's name for the program of the agent's process.
func (r *releases) exe() string {
	r.t.Helper()
	return "/proc/" + r.root("systemctl", "show", "-P", "MainPID", "hostler-agent") + "/exe"
}

// known waits until the broker shows the running version and program.
func (r *releases) known(version string) {
	r.t.Helper()
	sum := strings.Fields(r.root("sha256sum", r.exe()))[0]
	err := r.Wait(r.ctx, "the broker to know what runs", func() error {
		var seen struct {
			Version string `json:"agent_version"`
			Status  string `json:"status"`
		}
		var agent struct {
			Version string `json:"reported_agent_version"`
			Digest  string `json:"reported_digest"`
		}
		r.json(&seen, "node", "show", node)
		r.json(&agent, "node", "agent-lifecycle", node)
		if seen.Version != version || agent.Version != version || agent.Digest != sum || seen.Status != "active" {
			return fmt.Errorf("%s (%s) runs, and the broker shows %+v %+v", version, sum, seen, agent)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

// ran is the agent's log line at the beginning of a task. The line of a resumed task differs.
var ran = regexp.MustCompile(`the task runs .*\btask=(\S+)`)

// begins counts the beginnings of each task.
func begins(journal string) map[string]int {
	n := map[string]int{}
	for _, m := range ran.FindAllStringSubmatch(journal, -1) {
		n[m[1]]++
	}
	return n
}

// ranOnce compares the broker's tasks of the node with the node: its ledger, its journal, and its
// console. The journal loses lines not flushed before a power cut, the console an occasional line.
// Every ordered task is at the broker, has ended as the node says, and began once; the node began
// no other task.
func (r *releases) ranOnce() {
	r.t.Helper()
	collected := r.must("node.diagnostics", map[string]any{})
	told := r.told()
	kept := r.ledger(collected.ID)
	console, err := r.guest.Console()
	if err != nil {
		r.t.Fatal(err)
	}
	seen, begun := begins(console), begins(r.root("journalctl", "--unit=hostler-agent", "--output=cat", "--no-pager"))
	for _, id := range *r.asked {
		if !slices.ContainsFunc(told, func(t task) bool { return t.ID == id }) {
			r.t.Errorf("task %s was asked for, and the broker does not have it", id)
		}
	}
	for _, t := range told {
		entry, has := kept[t.ID]
		delete(kept, t.ID)
		least, most := 1, 1
		switch {
		case t.Outcome == string(taskcatalog.OutcomeInterrupted):
			least = 0 // the node's power may have gone before the line was on its way
		case t.Outcome == string(taskcatalog.OutcomeRefused):
			least, most = 0, 0
		}
		switch n := max(seen[t.ID], begun[t.ID]); {
		case t.Status == "queued" || t.Status == "dispatched":
			r.t.Errorf("task %s (%s) is %s: it was lost", t.ID, t.Type, t.Status)
		case t.ID == collected.ID: // this task ran while the archive was collected
		case !has:
			r.t.Errorf("task %s (%s) ended %s, and the node's ledger does not have it", t.ID, t.Type, t.Outcome)
		case entry.State != string(ledger.Finished) || string(entry.Outcome) != t.Outcome:
			r.t.Errorf("task %s (%s) ended %s, and the node's ledger has it %s, %s", t.ID, t.Type, t.Outcome, entry.State, entry.Outcome)
		case !r.unseen[t.ID] && (n < least || n > most):
			r.t.Errorf("task %s (%s), which ended %s, was begun %d times", t.ID, t.Type, t.Outcome, n)
		}
	}
	for id, e := range kept {
		r.t.Errorf("the node's ledger has task %s (%s), and the broker does not", id, e.Type)
	}
}

// told are the node's tasks as the broker has them.
func (r *releases) told() []task {
	r.t.Helper()
	var all struct{ Items []task }
	r.json(&all, "task", "list", "--node", node, "--limit", "0")
	return all.Items
}

// ledger returns the node's record of its tasks from a collected archive.
func (r *releases) ledger(collected string) map[string]host.TaskRecord {
	r.t.Helper()
	file := r.Path(collected + ".tar.gz")
	r.hostler("task", "archive", collected, "--out", file)
	f, err := os.Open(file)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	raw, err := packed(f, taskcatalog.DiagnosticsLedger)
	var kept struct {
		Tasks   []host.TaskRecord `json:"tasks"`
		Omitted int               `json:"tasks_omitted"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil || len(kept.Tasks) == 0 || kept.Omitted > 0 {
		r.t.Fatalf("the node's ledger is told of in %d tasks, without %d: %v", len(kept.Tasks), kept.Omitted, err)
	}
	all := map[string]host.TaskRecord{}
	for _, t := range kept.Tasks {
		all[t.TaskID] = t
	}
	return all
}

// packed is a file of a gzipped tar.
func packed(archive io.Reader, name string) ([]byte, error) {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("there is no %s", name), err)
		}
		if h.Name == name {
			return io.ReadAll(t)
		}
	}
}
