//go:build e2e

package e2e

import (
	"slices"
	"strings"
)

// indexName is the host name of the index of Python packages.
const indexName = "pypi.example"

// python makes an environment of one package. The lock file comes whole from the inputs, as one line.
const python = `operation: site.python.make
version: v1
summary: make the environment of the site's tools
backend_type: node_agent
safety: idle
targets: [node]
deadline_seconds: 3600
inputs:
  type: object
  required: [lock]
  properties:
    lock: {type: string, pattern: "^[a-z=.0-9 :-]+$", maxLength: 200}
artifacts: {sources: ["pypi:pypi.example"], signature: as_policy, max_bytes: 16777216}
steps:
  - id: lock
    kind: file.render
    timeout_seconds: 30
    with: {root: /srv/python, name: lock.txt, template: "{{.lock}}\n", values: {lock: {from: inputs.lock}}}
  - id: environment
    kind: python.env.create
    timeout_seconds: 900
    with: {source: pypi.example/simple, lock: {from: steps.lock}, root: /srv/python, name: env}
  - {id: runs, kind: file.render, timeout_seconds: 30, with: {root: /srv/python, name: made, template: "{{.at}}\n", values: {at: {from: steps.environment}}}}
`

// ofPython makes an environment from an index of the site. Without a hash, or with another one, there is none.
func (o *operations) ofPython() {
	s := o.site
	digest, err := o.index.Add("tuner", "1.0", "value = 'of the site'\n")
	if err != nil {
		s.t.Fatal(err)
	}
	file := s.Path("elsewhere.yaml")
	write(s.t, file, strings.ReplaceAll(python, "source: pypi.example/simple", "source: evil.example/simple"))
	if said, err := s.Hostler(s.ctx, "operation-definition", "push", file, "--reason", "another index"); err == nil || !strings.Contains(err.Error(), "source_not_listed") {
		s.t.Errorf("an index off the list: %s %v", said, err)
	}
	s.define("site.python.make@v1", python)
	for lock, code := range map[string]string{
		"tuner==1.0": "lock_refused",
		"tuner==1.0 --hash=sha256:" + strings.Repeat("0", 64): "wheel_not_found",
	} {
		run := s.begins("site.python.make@v1", map[string]any{"lock": lock})
		rows := s.awaitsEnd(&run)
		if run.Status != "failed" {
			s.t.Errorf("with %q the operation ended %+v", lock, run)
		}
		s.has(rows, "lock 1 succeeded\nenvironment 1 failed "+code)
	}
	if slices.ContainsFunc(o.index.Asked(), func(path string) bool { return strings.HasSuffix(path, ".whl") }) {
		s.t.Errorf("a wheel was brought that no hash names: %q", o.index.Asked())
	}
	run := s.begins("site.python.make@v1", map[string]any{"lock": "tuner==1.0 --hash=" + digest})
	s.has(s.ends(run), "lock 1 succeeded\nenvironment 1 succeeded\nruns 1 succeeded")
	s.proves(run, o.trust)
	if said := s.root("/srv/python/env/bin/python3", "-I", "-c", "import tuner; print(tuner.value)"); said != "of the site" {
		s.t.Errorf("the environment's module says %q", said)
	}
	if said := s.root("cat", "/srv/python/made"); said != "/srv/python/env" {
		s.t.Errorf("the environment is at %q", said)
	}
	if left := s.root("sh", "-c", "ls -d /var/lib/hostler-agent/python-env 2> /dev/null || true"); left != "" {
		s.t.Errorf("the agent has left %s", left)
	}
}
