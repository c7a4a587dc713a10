//go:build e2e && e2e_all

package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/lab"
)

// bootsAgain waits until the guest's boot id differs from before.
func (s *site) bootsAgain(before string) {
	s.t.Helper()
	err := s.Wait(s.ctx, "the guest to boot again", func() error {
		// A connection to a guest that lost its power never ends by itself.
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
		defer cancel()
		r, err := s.guest.Run(ctx, "cat", "/proc/sys/kernel/random/boot_id")
		if err == nil && strings.TrimSpace(r.Stdout) == before {
			err = errors.New("it still runs")
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// After a power cut during a scrub, the daemon that the scrub stopped runs again although no boot
// starts it: the ledger was on disk before the daemon stopped.
func TestAPowerCutDuringAScrubLeavesNoDaemonStopped(t *testing.T) {
	s := newSite(t)
	s.restore(installed)
	g := s.install("nvidia", 2)
	s.put("/usr/lib/systemd/system/"+persistence, []byte(daemon), 0o644) // as its package does
	s.root("systemctl", "start", persistence)
	s.hostler("resolver", "push", shipped, "--nodes", "all", "--version", "v1")
	s.enrol()
	g.faults("fault.0 hang fill")
	before := s.bootID()
	s.root("sync") // writes out everything except the scrub's own data

	cut := s.enqueue("node.gpu_scrub", map[string]any{})
	g.reaches(cut.ID, "gpu.scrub.overwrite")
	s.root("systemd-run", "--on-active=1s", "sh", "-c", "echo b > /proc/sysrq-trigger")
	s.bootsAgain(before)
	g.runsAgain(persistence)
	// The task may be delivered again if its lease expired before the guest booted. A scrub that
	// ran again would hang again and never end.
	if got := s.end(cut.ID); got.Outcome != "interrupted" {
		t.Errorf("the scrub during which the power was cut ended %+v", got)
	}
}

// staging brings a large file, with an address that the broker signs.
const staging = `operation: site.weights.stage
version: v1
summary: bring the weights to the node
backend_type: node_agent
safety: idle
targets: [node]
deadline_seconds: 3600
inputs:
  type: object
  required: [digest]
  properties:
    digest: {type: string, pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71}
artifacts: {sources: ["s3:models"], signature: as_policy, max_bytes: 1073741824}
steps:
  - {id: credential, kind: credential.mint, timeout_seconds: 60, attempts: 2, with: {type: s3_read, scope: models/weights}}
  - id: pull
    kind: artifact.pull_blob
    timeout_seconds: 1800
    attempts: 2
    with:
      from: s3
      source: models/weights/large
      digest: {from: inputs.digest}
      root: /srv/models
      name: large
      credential: {from: steps.credential}
  - {id: verify, kind: artifact.verify, timeout_seconds: 600, with: {path: {from: steps.pull}, digest: {from: inputs.digest}}}
`

// After a power cut in the middle of a large file the node goes on from its last checkpoint: the source
// sends a part again, and not the whole. The operation ends once, and no address that was signed is left.
func TestAPullGoesOnAfterAPowerCut(t *testing.T) {
	// A checkpoint comes every 32 MiB. The source has sent a little more than the node has received.
	const size, cutAt, again = 200 << 20, 120 << 20, 48 << 20
	s := newSite(t)
	s.lasts(20 * time.Minute)
	s.restore(installed)
	content := make([]byte, size)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	source := s.fileSource(content)
	s.enrol()
	write(t, s.Path("key"), rand.Text()+"\n")
	s.hostler("source-credential", "set", "models", "--source", "s3:models", "--endpoint", "https://"+lab.SourceName, "--region", "eu-1",
		"--key-id", "AKSITE", "--secret-file", s.Path("key"), "--reason", "our models")
	s.define("site.weights.stage@v1", staging)
	o := s.begins("site.weights.stage@v1", map[string]any{"digest": source.Digest()})
	s.awaits(source, "the most of the file", func() bool { return source.Sent >= cutAt })
	if err := errors.Join(s.guest.Unplug(s.ctx), s.guest.Replug(s.ctx), s.guest.WaitSSH(s.ctx)); err != nil {
		t.Fatal(err)
	}
	rows := s.ends(o)
	if got, want := strings.Join(rows, "\n"), `credential 1 succeeded
pull 1 failed step_interrupted
credential 2 succeeded
pull 2 succeeded
verify 1 succeeded`; got != want {
		t.Errorf("the rows are\n%s", got)
	}
	if source.Sent > size+again || len(source.Asked) != 2 || source.Asked[0].Begin != "" || source.Asked[1].Begin == "" {
		t.Errorf("of %d bytes the source sent %d, to %+v", size, source.Sent, source.Asked)
	}
	if got := s.root("sh", "-c", "cd /srv/models; sha256sum large; ls -A"); got != strings.TrimPrefix(source.Digest(), "sha256:")+"  large\nlarge" {
		t.Errorf("on the node is %s", got)
	}
	var signatures []string
	for _, r := range source.Asked {
		signatures = append(signatures, r.Signature)
	}
	s.holdsNowhere("in the end", signatures)
	s.hostler("audit", "verify")
}
