//go:build e2e && e2e_all

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/broker/cloudinit"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/qemu"
)

// siteBundle is an operator's script. It gives the guest the hardware it lacks: disks with serials,
// one of them with data, and an interface for RoCE.
const siteBundle = `#!/bin/sh
set -e
cat >/etc/udev/rules.d/99-shelf.rules <<'END'
KERNEL=="vdc", ENV{ID_SERIAL_SHORT}="SHELF1"
KERNEL=="vdd", ENV{ID_SERIAL_SHORT}="SHELF2"
KERNEL=="vdf", ENV{ID_SERIAL_SHORT}="SHELF4"
END
udevadm control --reload
udevadm trigger --settle --name-match=/dev/vdc --name-match=/dev/vdd --name-match=/dev/vdf
mkfs.ext4 -q -L theirs /dev/vdd
ip link add roce0 type veth peer name roce1
ip address add 172.30.9.61/31 dev roce0
ip link set roce0 up
ip link set roce1 up
`

const (
	shelf1 = 64 << 20 // bytes
	shelf2 = 65 << 20
	pooled = 256 << 20 // of each of two
)

//go:embed merge.py
var mergeProgram []byte

// laidOut returns a file from rendered user-data.
func laidOut(t *testing.T, userData, path string) (text string) {
	t.Helper()
	_, rest, ok := strings.Cut(userData, " "+path+"\n")
	if !ok {
		t.Fatalf("the user-data lays out no %s", path)
	}
	for line := range strings.Lines(rest) {
		content, ok := strings.CutPrefix(line, "|")
		if !ok {
			break
		}
		text += content
	}
	return text
}

// wholeBundle is the complete bundle of an onboarding, except for MAAS's half of hardware sync: no
// MAAS runs here.
func wholeBundle(t *testing.T, s *site) cloudinit.Input {
	t.Helper()
	var made struct {
		Token       pki.EnrollToken `json:"token"`
		URL         string          `json:"broker_url"`
		CASHA256    string          `json:"ca_sha256"`
		CloudConfig string          `json:"cloud_config"`
	}
	s.json(&made, "node", "create", "--hostname", node, "--bootstrap", "cloud-init")
	deb, err := os.ReadFile(agentPackage(t))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := cloudinit.HashPassword("planted-deploy-password", "saltsalt")
	if err != nil {
		t.Fatal(err)
	}
	var depot mirror
	content := []byte(siteBundle)
	depot.content.Store(&content)
	return cloudinit.Input{
		BrokerURL: made.URL, CASHA256: made.CASHA256, RootPEM: laidOut(t, made.CloudConfig, "/etc/hostler-bootstrap/ca.pem"), Token: made.Token,
		Package:      &cloudinit.Package{SHA256: fmt.Sprintf("%x", sha256.Sum256(deb))},
		SiteBundle:   fmt.Sprintf("%s@sha256:%x", depot.serve(t), sha256.Sum256(content)),
		HardwareSync: true,
		Disks:        []cloudinit.Disk{{Serial: "SHELF1", Size: shelf1}},
		RoCE:         []cloudinit.RoCE{{Interface: "roce0", Address: netip.MustParsePrefix("172.30.9.61/31")}},
		DeployUser: &cloudinit.DeployUser{
			Name: "hpcadmin", SSHKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB+4zbUZmuNjTZSh8HGPZk3RvLkFPFGpYy5SnVBb1XyL hostler@dc1", PasswordHash: hash,
		},
	}
}

func (s *site) layers() map[string]string {
	var shown struct {
		Capabilities map[string]string `json:"capabilities"`
	}
	s.json(&shown, "node", "show", node)
	return shown.Capabilities
}

func TestAFirstBootCarriesOutItsLayersAndKeepsNoSecret(t *testing.T) {
	s := newSiteOfItsOwn(t)
	// A first boot with every layer takes twice the time of a case.
	ctx, cancel := context.WithTimeout(t.Context(), 2*caseTime)
	defer cancel()
	s.ctx = ctx
	in := wholeBundle(t, s)
	userData, err := cloudinit.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	s.guest = qemu.Start(t, shared.image, qemu.Config{Name: node, UserData: userData, ReachHost: true, Disks: []int64{shelf1, shelf2, pooled, pooled}})
	s.waitNode("active")
	if err := s.guest.WaitCloudInit(s.ctx); err != nil {
		t.Error(err)
	}
	want := map[string]string{
		"first_boot.site": "done", "first_boot.disks": "done", "first_boot.roce": "done",
		"first_boot.hw-sync": "failed: MAAS's unit maas_hardware_sync.service is not there: its vendor-data did not arrive",
	}
	if err := s.Wait(s.ctx, "the broker to learn how the layers ended", func() error {
		has := s.layers()
		for name, state := range want {
			if has[name] != state {
				return fmt.Errorf("%s is %q, want %q", name, has[name], state)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}

	s.part("what the layers did", func(s *site) {
		s.root("mountpoint", "-q", "/share1")
		if rules := s.root("ip", "rule"); !strings.Contains(rules, "1000:\tfrom 172.30.9.61 lookup 1000") {
			s.t.Errorf("the rules are\n%s", rules)
		}
		if routes := s.root("ip", "route", "show", "table", "1000"); !strings.Contains(routes, "default via 172.30.9.60 dev roce0 src 172.30.9.61") {
			s.t.Errorf("the routes are\n%s", routes)
		}
		if shadow := s.root("getent", "shadow", "hpcadmin"); !strings.HasPrefix(shadow, "hpcadmin:!:") {
			s.t.Error("the deploy user's password is not locked")
		}
		if keys := s.root("cat", "/home/hpcadmin/.ssh/authorized_keys"); !strings.Contains(keys, in.DeployUser.SSHKey) {
			s.t.Errorf("the deploy user's keys are %q", keys)
		}
		if units := s.root("systemctl", "list-units", "--failed", "--plain", "--no-legend"); strings.Contains(units, "hostler") && !strings.Contains(units, "hostler-layer@hw-sync.service") {
			s.t.Errorf("failed are\n%s", units)
		}
	})
	s.part("cloud-init is off, and what it keeps is watched", cloudInitIsWatched)
	s.part("a disk that holds something is spared", func(s *site) {
		before := s.root("sha256sum", "/dev/vdd")
		s.put("/etc/hostler-bootstrap/disks", fmt.Appendf(nil, "2 SHELF2 %d\n", shelf2), 0o644)
		s.root("rm", "/var/lib/hostler-bootstrap/layers/disks")
		if _, err := s.guest.Run(s.ctx, "systemctl", "restart", "hostler-layer@disks.service"); err == nil {
			s.t.Error("the layer did not fail")
		}
		if record := s.root("cat", "/var/lib/hostler-bootstrap/layers/disks"); !strings.Contains(record, "failed\ndisk SHELF2 (/dev/vdd) holds something known") {
			s.t.Errorf("it says %q", record)
		}
		s.put("/etc/hostler-bootstrap/disks", fmt.Appendf(nil, "1 SHELF1 %d\n", shelf1), 0o644)
		s.root("rm", "/var/lib/hostler-bootstrap/disks/SHELF1", "/var/lib/hostler-bootstrap/disks/SHELF1.done")
		if _, err := s.guest.Run(s.ctx, "systemctl", "restart", "hostler-layer@disks.service"); err == nil {
			s.t.Error("the layer did not fail")
		}
		if record := s.root("cat", "/var/lib/hostler-bootstrap/layers/disks"); !strings.Contains(record, "is mounted or held") {
			s.t.Errorf("it says %q", record)
		}
		if after := s.root("sha256sum", "/dev/vdd"); after != before {
			s.t.Error("the disk was written to")
		}
	})
	s.part("a disk of a pool in use is spared", aPoolIsSpared)
	s.part("no secret is left", func(s *site) { s.noSecretIsLeft(in) })
	s.part("MAAS's hardware sync is not replaced", func(s *site) { s.mergesWithMAAS(userData) })
}

// cloudInitIsWatched checks that validate_clean finds a tenant's change in cloud-init's files, and
// no other change: a later boot changes nothing there.
func cloudInitIsWatched(s *site) {
	s.root("test", "-s", firstboot.DisableFile)
	if err := s.Wait(s.ctx, "the node to have a baseline", func() error {
		_, err := s.Hostler(s.ctx, "node", "baseline", "show", node)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	// The pair that stands in for the RoCE interface does not survive a boot, and the layer would
	// wait for it.
	s.root("rm", "/etc/systemd/system/multi-user.target.wants/hostler-layer@roce.service")
	s.reboot()
	if err := s.Wait(s.ctx, "the boot's end", func() error {
		r, err := s.guest.Run(s.ctx, "systemctl", "is-system-running")
		if now := strings.TrimSpace(r.Stdout); now != "running" && now != "degraded" {
			return fmt.Errorf("the system is %q: %v", now, err)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	s.waitNode("active")
	s.root("sh", "-c", "printf '\\n# implant\\n' >> /var/lib/cloud/instance/boothooks/hostler-lay-out")
	got := s.must("node.validate_clean", map[string]any{})
	ev := s.evidence(got.ID)
	if left := unmade(ev); len(left) > 0 {
		s.t.Errorf("not made are %+v", left)
	}
	found := slices.DeleteFunc(ev.Findings, func(f taskcatalog.Finding) bool { return f.Check != "cloud_init" })
	if len(found) != 1 || !strings.HasSuffix(found[0].Subject, "/boothooks/hostler-lay-out") {
		s.t.Errorf("found are %+v", found)
	}
}

// aPoolIsSpared tests a mounted btrfs over two disks: the second disk shows no mount and no holder.
// Known signatures may be overwritten, so nothing but the pool protects the disk.
func aPoolIsSpared(s *site) {
	s.root("mkfs.btrfs", "-q", "-d", "single", "-m", "raid1", "/dev/vde", "/dev/vdf")
	s.root("sh", "-c", "mkdir /pool && mount /dev/vde /pool && echo theirs > /pool/theirs && sync")
	if seen := s.root("sh", "-c", "lsblk --noheadings --raw --output MOUNTPOINT /dev/vdf; ls /sys/class/block/vdf/holders"); seen != "" {
		s.t.Fatalf("the second disk of the pool shows by itself that it is in use: %s", seen)
	}
	before := s.root("sha256sum", "/dev/vdf")
	s.put("/etc/hostler-bootstrap/disks", fmt.Appendf(nil, "2 SHELF4 %d\n", pooled), 0o644)
	s.put("/etc/hostler-bootstrap/disks-overwrite", nil, 0o644)
	if _, err := s.guest.Run(s.ctx, "systemctl", "restart", "hostler-layer@disks.service"); err == nil {
		s.t.Error("the layer did not fail")
	}
	if record := s.root("cat", "/var/lib/hostler-bootstrap/layers/disks"); !strings.Contains(record, "failed\ndisk SHELF4 (/dev/vdf) is mounted or held") {
		s.t.Errorf("it says %q", record)
	}
	if after := s.root("sha256sum", "/dev/vdf"); after != before {
		s.t.Error("the disk was written to")
	}
	// Without the mount the disk is taken: only the pool in use protected it.
	s.root("umount", "/pool")
	s.root("systemctl", "restart", "hostler-layer@disks.service")
	s.root("mountpoint", "-q", "/share2")
}

// noSecretIsLeft searches every file of the guest as root, then the blocks of the disk. Hostler
// promises nothing about the blocks: findings there are only logged.
func (s *site) noSecretIsLeft(in cloudinit.Input) {
	secrets := map[string]string{"the token": in.Token.Reveal(), "the password's hash": in.DeployUser.PasswordHash, "the password": "planted-deploy-password"}
	search := func(secret string) string {
		argv := []string{"grep", "--recursive", "--files-with-matches", "--binary-files=text", "--fixed-strings", "--devices=skip", "--no-messages"}
		for _, spelling := range spellings(secret) {
			argv = append(argv, "-e", spelling)
		}
		r, err := s.guest.Run(s.ctx, append(argv, "/etc", "/home", "/root", "/var", "/run", "/usr/local", "/share1", "/tmp", "/opt", "/srv")...)
		if err != nil && r.Exit == 0 { // 1: there is none; 2: a file went away meanwhile
			s.t.Fatal(err)
		}
		return r.Stdout
	}
	// The agent waits for cloud-init's end, and looks every ten seconds.
	if err := s.Wait(s.ctx, "the secrets to be struck", func() error {
		if left := search(in.Token.Reveal()); left != "" {
			return fmt.Errorf("the token is in\n%s", left)
		}
		return nil
	}); err != nil {
		s.t.Error(err)
	}
	for name, secret := range secrets {
		if left := search(secret); left != "" {
			s.t.Errorf("%s is left in\n%s", name, left)
		}
	}
	s.root("sync")
	disk, err := os.ReadFile(s.guest.Disk())
	if err != nil {
		s.t.Fatal(err)
	}
	for name, secret := range secrets {
		s.t.Logf("in the blocks of the disk, files or none, %s is %d times", name, bytes.Count(disk, []byte(secret)))
	}
	schema, err := s.guest.Run(s.ctx, "cloud-init", "schema", "--config-file", "/var/lib/cloud/instance/cloud-config.txt")
	if err != nil || !strings.Contains(schema.Stdout, "Valid") {
		s.t.Errorf("cloud-init does not like what was struck: %v %s%s", err, schema.Stdout, schema.Stderr)
	}
}

// mergesWithMAAS has cloud-init itself merge our user-data with MAAS's vendor-data.
func (s *site) mergesWithMAAS(userData string) {
	text, err := os.ReadFile("../maassim/vendor-data.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	var vendor bytes.Buffer
	err = template.Must(template.New("vendor-data").Parse(string(text))).Execute(&vendor, map[string]any{
		"Region": "http://10.0.0.1:5240", "SystemID": "abc123", "Syncs": true, "Minutes": 15, "ConsumerKey": "c", "TokenKey": "k", "TokenSecret": "s",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.put("/root/merge.py", mergeProgram, 0o600)
	s.put("/root/vendor-data", vendor.Bytes(), 0o600)
	merged := func(name, userData string) string {
		s.put("/root/"+name, []byte(userData), 0o600)
		var got struct {
			WriteFiles []struct{ Path string } `json:"write_files"`
			RunCmd     [][]string              `json:"runcmd"`
		}
		out := s.root("python3", "/root/merge.py", "/root/merged-"+name, "/root/"+name, "/root/vendor-data")
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
		return fmt.Sprint(got.WriteFiles, got.RunCmd)
	}
	ours, theirs := merged("ours", userData), merged("theirs", "#cloud-config\n{}\n")
	if ours != theirs || !strings.Contains(ours, "maas_hardware_sync.timer") || !strings.Contains(ours, "/etc/maas/maas-machine-creds.yml") || !strings.Contains(ours, "[systemctl enable --now maas_hardware_sync.timer]") {
		s.t.Errorf("with our user-data the vendor-data is %s, without it %s", ours, theirs)
	}
	for key, value := range map[string]string{"write_files": "[{path: /x, content: x}]", "runcmd": "[[/bin/true]]"} {
		if bad := merged("bad-"+key, strings.Replace(userData, "\nusers:\n", "\n"+key+": "+value+"\nusers:\n", 1)); bad == theirs {
			s.t.Errorf("this test does not see it when our part has %s", key)
		}
	}
	s.root("rm", "-r", "/root/merged-ours", "/root/merged-theirs", "/root/merged-bad-write_files", "/root/merged-bad-runcmd", "/root/ours", "/root/bad-write_files", "/root/bad-runcmd")
}
