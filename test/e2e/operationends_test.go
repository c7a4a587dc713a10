//go:build e2e

package e2e

import "fmt"

// fetching brings one file, with a token, and tries it once.
const fetching = `operation: site.table.fetch
version: v1
summary: bring the site's table
backend_type: node_agent
safety: idle
targets: [node]
deadline_seconds: 3600
inputs:
  type: object
  required: [digest]
  properties:
    digest: {type: string, pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71}
artifacts: {sources: ["huggingface:acme/tables"], signature: as_policy, max_bytes: 16777216}
steps:
  - {id: credential, kind: credential.mint, timeout_seconds: 60, with: {type: hf_token, scope: acme/tables}}
  - id: pull
    kind: artifact.pull_blob
    timeout_seconds: 300
    with:
      from: huggingface
      source: acme/tables@v1/fabric.table
      digest: {from: inputs.digest}
      root: /srv/fetched
      name: fabric.table
      credential: {from: steps.credential}
`

// toABadEnd has operations fail, be cancelled and be killed while they hold a secret. Each ends as what it is,
// and the secret is nowhere.
func (o *operations) toABadEnd() {
	s, source := o.site, o.files
	s.define("site.table.fetch@v1", fetching)
	for _, c := range []struct {
		name, digest string
		while        func(run operation) // in the middle of the pull; nil: the pull goes on to its end
		status, rows string
	}{
		{"failed", fmt.Sprintf("sha256:%064d", 0), nil, "failed", "credential 1 succeeded\npull 1 failed digest_mismatch"},
		{"cancelled", source.Digest(), func(run operation) {
			s.hostler("operation", "cancel", run.ID, "--reason", "wrong table")
		}, "canceled", "credential 1 succeeded\npull 1 canceled canceled"},
		{"killed", source.Digest(), func(operation) {
			s.root("systemctl", "kill", "--signal=KILL", "hostler-agent")
		}, "failed", "credential 1 succeeded\npull 1 failed step_interrupted"},
		// The runtime of Go ends the agent then, and writes what its threads do to the journal.
		{"aborted", source.Digest(), func(operation) {
			s.root("systemctl", "kill", "--kill-whom=main", "--signal=ABRT", "hostler-agent")
		}, "failed", "credential 1 succeeded\npull 1 failed step_interrupted"},
	} {
		source.Change(func() { source.StopAt, source.Sent, source.Asked = 1<<20, 0, nil })
		if c.while == nil {
			source.Change(func() { source.StopAt = 0 })
		}
		run := s.begins("site.table.fetch@v1", map[string]any{"digest": c.digest})
		if c.while != nil {
			s.awaits(source, "the pull", func() bool { return source.Sent >= source.StopAt })
			c.while(run)
		}
		rows := s.awaitsEnd(&run)
		if run.Status != c.status {
			s.t.Errorf("the %s operation ended %+v", c.name, run)
		}
		s.has(rows, c.rows)
		source.Look(func() bool {
			for _, r := range source.Asked {
				if r.Authorization != "Bearer "+o.secret {
					s.t.Errorf("the %s operation showed the source %q", c.name, r.Authorization)
				}
			}
			return true
		})
		s.holdsNowhere("after the "+c.name+" operation", []string{o.secret}, o.answers(run)...)
	}
	source.Change(func() { source.StopAt = 0 })
	if said := s.root("journalctl", "--unit=hostler-agent", "--output=cat", "--no-pager", "--grep=^goroutine "); said == "" {
		s.t.Error("the journal has no dump of the aborted agent, so nothing was searched there")
	}
	for _, find := range []string{"find /srv/fetched -name fabric.table", "find / -maxdepth 1 -name core*", "find /var/crash /var/lib/systemd/coredump -type f"} {
		if r, _ := s.guest.Run(s.ctx, "sh", "-c", "set -f; exec "+find); r.Stdout != "" {
			s.t.Errorf("%s: %s", find, r.Stdout)
		}
	}
}
