//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hostler/hostler/test/lab"
)

// tuning is an operation over two boots of the node. The program comes as a package of the site, its
// table from a repository that asks for a token.
const tuning = `operation: site.fabric.tune
version: v1
summary: install the site's tuner, set it up and start it
backend_type: node_agent
safety: idle
targets: [node]
deadline_seconds: 3600
inputs:
  type: object
  required: [packages, digest, interval, note]
  properties:
    packages:
      type: array
      maxItems: 4
      items: {type: string, pattern: "^[a-z0-9][a-z0-9.+-]+=[0-9A-Za-z.+:~-]*[0-9A-Za-z.~]$", maxLength: 200}
    digest: {type: string, pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71}
    interval: {type: integer, minimum: 1000, maximum: 9999}
    note: {type: string, pattern: "^[a-z][a-z-]*$", maxLength: 64}
artifacts: {sources: ["huggingface:acme/tables"], signature: as_policy, max_bytes: 16777216}
command_profiles:
  - id: note
    command: /usr/bin/logger
    base_args: [--tag, fabric-tuner]
    arg_schema: [{name: text, type: string, pattern: "[a-z][a-z-]*", required: true}]
    user: nobody
    timeout_seconds: 30
steps:
  - id: credential
    kind: credential.mint
    timeout_seconds: 60
    attempts: 2
    with: {type: hf_token, scope: acme/tables}
  - id: pull
    kind: artifact.pull_blob
    timeout_seconds: 300
    attempts: 3
    with:
      from: huggingface
      source: acme/tables@v1/fabric.table
      digest: {from: inputs.digest}
      root: /srv/tables
      name: fabric.table
      credential: {from: steps.credential}
  - {id: verify, kind: artifact.verify, timeout_seconds: 60, with: {path: {from: steps.pull}, digest: {from: inputs.digest}}}
  - {id: install, kind: package.install, timeout_seconds: 300, with: {packages: {from: inputs.packages}}}
  - id: config
    kind: file.render
    timeout_seconds: 30
    with:
      root: /etc/fabric-tuner
      name: tuner.conf
      template: "INTERVAL={{.interval}}\nTABLE={{.table}}\n"
      values: {interval: {from: inputs.interval}, table: {from: steps.verify}}
      owner: daemon
      mode: "0640"
  - {id: enable, kind: service.control, timeout_seconds: 60, with: {unit: fabric-tuner.service, action: enable}}
  - {id: start, kind: service.control, timeout_seconds: 60, with: {unit: fabric-tuner.service, action: start}}
  - {id: note, kind: command.exec_allowlisted, timeout_seconds: 30, with: {command: note, args: {text: {from: inputs.note}}}}
  - {id: reboot, kind: host.reboot, timeout_seconds: 600}
  - {id: runs, kind: health.check, timeout_seconds: 60, attempts: 5, with: {check: unit, target: fabric-tuner.service}}
  - {id: restart, kind: service.control, timeout_seconds: 60, with: {unit: fabric-tuner.service, action: restart}}
  - id: mark
    kind: file.render
    timeout_seconds: 30
    with: {root: /var/lib/fabric-tuner, name: tuned, template: "tuned by {{.conf}}\n", values: {conf: {from: steps.config}}}
`

// tuner is the unit of the package. It tells each of its starts.
const tuner = `[Unit]
Description=Tuner of the fabric
[Service]
EnvironmentFile=/etc/fabric-tuner/tuner.conf
StateDirectory=fabric-tuner
ExecStartPre=sh -c 'cat /proc/sys/kernel/random/boot_id >> /var/lib/fabric-tuner/starts'
ExecStart=sleep $INTERVAL
[Install]
WantedBy=multi-user.target
`

// operation holds the fields of an operation that a case reads.
type operation struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// define stores a definition and activates it.
func (s *site) define(id, text string) {
	s.t.Helper()
	file := s.Path(id + ".yaml")
	write(s.t, file, text)
	s.hostler("operation-definition", "push", file, "--reason", "made by the site")
	s.hostler("operation-definition", "activate", id, "--reason", "read", "--yes")
}

// begins begins an operation on the node.
func (s *site) begins(id string, inputs any) (o operation) {
	s.t.Helper()
	raw, err := json.Marshal(inputs)
	if err != nil {
		s.t.Fatal(err)
	}
	file := s.Path("inputs.json")
	write(s.t, file, string(raw))
	s.json(&o, "operation", "run", id, "--node", node, "--inputs", file, "--reason", "a new fabric")
	return o
}

// awaitsEnd waits for the end of an operation, and returns its rows.
func (s *site) awaitsEnd(o *operation) (rows []string) {
	s.t.Helper()
	err := s.JSON(s.ctx, o, "operation", "watch", o.ID)
	if exit, is := errors.AsType[*lab.ExitError](err); err != nil && (!is || o.Status == "") {
		s.t.Fatalf("the operation %+v: %v: %v", o, exit, err)
	}
	var log struct {
		Items []struct {
			Step    string `json:"step_id"`
			Attempt int    `json:"attempt_number"`
			Status  string `json:"status"`
			Code    string `json:"error_code"`
		} `json:"items"`
	}
	s.json(&log, "operation", "logs", o.ID)
	for _, r := range log.Items {
		rows = append(rows, strings.TrimSpace(fmt.Sprintf("%s %d %s %s", r.Step, r.Attempt, r.Status, r.Code)))
	}
	return rows
}

// ends waits for the end of an operation, which must be good, and returns its rows.
func (s *site) ends(o operation) (rows []string) {
	s.t.Helper()
	rows = s.awaitsEnd(&o)
	if o.Status != "succeeded" {
		said, _ := s.Hostler(s.ctx, "operation", "logs", o.ID)
		s.t.Fatalf("the operation ended %+v\n%s", o, said)
	}
	return rows
}

// has fails unless the rows of an operation are the expected ones.
func (s *site) has(rows []string, want string) {
	s.t.Helper()
	if got := strings.Join(rows, "\n"); got != strings.TrimSpace(want) {
		s.t.Errorf("the rows are\n%s\nwant\n%s", got, want)
	}
}

// proves has the operation's statement verified without the broker, against the trust that the
// broker showed before.
func (s *site) proves(o operation, trust string) {
	s.t.Helper()
	file := s.Path(o.ID + ".json")
	s.hostler("operation", "statement", o.ID, "--out", file)
	said, err := s.HostlerOffline(s.ctx, "operation", "verify", file, "--trust", trust)
	if err != nil || !strings.Contains(said, "signed by the node") {
		s.t.Errorf("the statement: %v\n%s", err, said)
	}
}

// tunerPackage makes a package with the unit of the tuner.
func (s *site) tunerPackage(name, version string) (deb string) {
	s.t.Helper()
	tree := s.t.TempDir()
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: site <site@example>\nDescription: tuner\n", name, version)
	for file, text := range map[string]string{"DEBIAN/control": control, "usr/lib/systemd/system/" + name + ".service": tuner} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, file)), 0o755); err != nil {
			s.t.Fatal(err)
		}
		write(s.t, filepath.Join(tree, file), text)
		if err := os.Chmod(filepath.Join(tree, file), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	deb = filepath.Join(s.t.TempDir(), name+".deb")
	for _, argv := range [][]string{
		{"chmod", "-R", "u=rwX,go=rX", tree}, {"dpkg-deb", "--root-owner-group", "--build", tree, deb},
	} {
		if said, err := exec.CommandContext(s.ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			s.t.Fatalf("%q: %v\n%s", argv, err, said)
		}
	}
	return deb
}

// aptSource makes a signed source of packages the only one of the guest.
func (s *site) aptSource(debs ...string) {
	s.t.Helper()
	files, err := lab.AptSource(s.ctx, s.t.TempDir(), debs...)
	if err != nil {
		s.t.Fatal(err)
	}
	for file, content := range files {
		s.put(lab.AptDir+"/"+file, content, 0o644)
	}
	s.root("sh", "-c", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*")
	s.put("/etc/apt/sources.list", []byte(lab.AptLine), 0o644)
}

// overARestart has an operation of the site run on a node: over a kill of the agent and a restart of the
// machine. What it did is there, the statement proves it, and its secret is nowhere.
func (o *operations) overARestart() {
	s, source, secret := o.site, o.files, o.secret
	s.define("site.fabric.tune@v1", tuning)
	source.Change(func() { source.StopAt = 1 << 20 })
	before := s.bootID()
	run := s.begins("site.fabric.tune@v1", map[string]any{
		"packages": []string{"fabric-tuner=1.2-3"}, "digest": source.Digest(), "interval": 4321, "note": "tuned-by-operation",
	})
	s.awaits(source, "the pull", func() bool { return source.Sent >= source.StopAt })
	s.holdsNowhere("in the middle of the pull", []string{secret})
	s.root("systemctl", "kill", "--signal=KILL", "hostler-agent")
	s.awaits(source, "the pull to go on", func() bool { return len(source.Asked) > 1 })
	s.holdsNowhere("after a kill", []string{secret})
	err := s.guest.RebootAfter(s.ctx, func() error { source.Change(func() { source.StopAt = 0 }); return nil })
	if err != nil {
		said, _ := s.Hostler(s.ctx, "operation", "show", run.ID)
		s.t.Fatalf("%v\n%s", err, said)
	}
	s.has(s.ends(run), `credential 1 succeeded
pull 1 failed step_interrupted
credential 2 succeeded
pull 2 succeeded
verify 1 succeeded
install 1 succeeded
config 1 succeeded
enable 1 succeeded
start 1 succeeded
note 1 succeeded
reboot 1 succeeded
runs 1 succeeded
restart 1 succeeded
mark 1 succeeded`)
	after := s.bootID()
	for command, want := range map[string]string{
		"sha256sum /srv/tables/fabric.table":                             strings.TrimPrefix(source.Digest(), "sha256:") + "  /srv/tables/fabric.table",
		"dpkg-query --show fabric-tuner":                                 "fabric-tuner\t1.2-3",
		"cat /etc/fabric-tuner/tuner.conf":                               "INTERVAL=4321\nTABLE=/srv/tables/fabric.table",
		"stat --format=%U:%a /etc/fabric-tuner /srv/tables":              "root:755\nroot:755",
		"stat --format=%U:%G:%a /etc/fabric-tuner/tuner.conf":            "daemon:daemon:640",
		"systemctl is-enabled fabric-tuner":                              "enabled",
		"systemctl is-active fabric-tuner":                               "active",
		"cat /var/lib/fabric-tuner/starts":                               before + "\n" + after + "\n" + after,
		"cat /var/lib/fabric-tuner/tuned":                                "tuned by /etc/fabric-tuner/tuner.conf",
		"journalctl --identifier=fabric-tuner --output=cat --no-pager":   "tuned-by-operation",
		"systemctl list-units --failed --plain --no-legend hostler*":     "",
		"find /srv /etc/fabric-tuner /var/lib/fabric-tuner -name .host*": "",
	} {
		if got := s.root(strings.Fields(command)...); got != want {
			s.t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	for _, r := range source.Asked {
		if r.Authorization != "Bearer "+secret || r.Path != "/acme/tables/resolve/v1/fabric.table" {
			s.t.Errorf("the source was asked for %+v", r)
		}
	}
	s.holdsNowhere("in the end", []string{secret}, o.answers(run)...)
	s.proves(run, o.trust)
	s.hostler("audit", "verify")
}
