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

// toABadEnd has an operation fail while it holds a secret. It ends as what it is, and the secret is nowhere.
func (o *operations) toABadEnd() {
	s := o.site
	s.define("site.table.fetch@v1", fetching)
	run := s.begins("site.table.fetch@v1", map[string]any{"digest": fmt.Sprintf("sha256:%064d", 0)})
	rows := s.awaitsEnd(&run)
	if run.Status != "failed" {
		s.t.Errorf("the operation ended %+v", run)
	}
	s.has(rows, "credential 1 succeeded\npull 1 failed digest_mismatch")
	s.holdsNowhere("after an operation that failed", []string{o.secret}, o.answers(run)...)
}
