//go:build e2e

package e2e

import (
	"strings"

	"github.com/hostler/hostler/test/slurm"
)

// openCluster starts a cluster of Slurm, and returns the package of slurmd.
func (o *operations) openCluster() (deb string) {
	s := o.site
	s.t.Helper()
	if why := slurm.Lacks(); why != "" {
		s.t.Fatalf("no cluster can run here: %s", why)
	}
	programs, err := slurm.Programs(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if o.cluster, err = slurm.Run(s.ctx, programs); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("Slurm:\n%s", o.cluster.Said())
		}
		o.cluster.Close()
	})
	deb, version, err := slurm.NodePackage(s.ctx, programs, s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	o.slurmd = slurm.Package + "=" + version
	return deb
}

// says runs a program of Slurm's on the controller.
func (o *operations) says(argv ...string) string {
	o.t.Helper()
	said, err := o.cluster.Output(o.ctx, argv...)
	if err != nil {
		o.t.Fatal(err)
	}
	return strings.TrimSpace(said)
}

// runs has a project's member run an operation on an allocation, up to its good end.
func (x *tenant) runs(on allocation, definition, inputs string) (run operation) {
	x.t.Helper()
	file := x.Path("project.json")
	write(x.t, file, inputs)
	x.asks(&run, "operation", "run", definition, "--allocation", on.ID, "--inputs", file)
	if said, err := x.HostlerAs(x.ctx, x.token, nil, "operation", "watch", run.ID); err != nil {
		logs, _ := x.Hostler(x.ctx, "operation", "logs", run.ID)
		x.t.Fatalf("%s: %v\n%s\n%s", definition, err, said, logs)
	}
	x.asks(&run, "operation", "show", run.ID)
	return run
}

// ofACluster has a project make the node of its allocation a member of its cluster, where a job runs, and take
// it out again. Whether it is a member, the cluster says. The cluster's key is on the node meanwhile, in one
// file, and then nowhere.
func (o *operations) ofACluster() {
	s, c := o.site, o.cluster
	acme := s.tenant("acme", plainSKU, "--gpus", "0")
	for name, content := range map[string]string{"cluster.token": c.Token, "slurm.key": string(c.Key), "slurmrestd.pem": c.CA} {
		write(s.t, s.Path(name), content)
	}
	s.hostler("cluster", "set", "lab", "--backend", "slurm", "--url", c.URL, "--token-file", s.Path("cluster.token"), "--ca-file", s.Path("slurmrestd.pem"),
		"--controller", slurm.Controller, "--join-auth", "slurm", "--join-secret-file", s.Path("slurm.key"), "--project", acme.project, "--reason", "our lab")
	if err := c.Connect(s.ctx, s.guest); err != nil {
		s.t.Fatal(err)
	}
	if known := o.says("sinfo", "--Node", "--noheader"); strings.Contains(known, node) {
		s.t.Fatalf("the cluster knows the node before it has joined: %s", known)
	}
	held := acme.takes()
	secrets := []string{string(c.Key), c.Token}

	joined := acme.runs(held, "slurm.node.bootstrap@v1", `{"packages": ["`+o.slurmd+`"], "cluster": "lab", "labels": ["h100"]}`)
	if said := o.says("sinfo", "--Node", "--noheader", "--format=%N %T %f"); said != node+" idle h100" {
		s.t.Errorf("the cluster says %q", said)
	}
	kernel := s.root("uname", "-nv")
	if said := o.says("srun", "--nodes=1", "--constraint=h100", "--chdir=/tmp", "/usr/bin/uname", "-nv"); said != kernel || !strings.HasPrefix(said, node+" ") {
		s.t.Errorf("the job says %q, and the machine %q", said, kernel)
	}
	if said := s.root("stat", "--format=%U:%a", "/etc/slurm/slurm.key"); said != "slurm:400" {
		s.t.Errorf("the key is %s", said)
	}

	left := acme.runs(held, "slurm.node.leave@v1", `{"cluster": "lab"}`)
	if known := o.says("sinfo", "--Node", "--noheader"); strings.Contains(known, node) {
		s.t.Errorf("the cluster still knows the node: %s", known)
	}
	for command, want := range map[string]string{
		"systemctl is-active slurmd.service":                    "inactive",
		"systemctl is-enabled slurmd.service":                   "disabled",
		"pgrep -x slurmd":                                       "",
		"ls -A /etc/slurm":                                      "",
		"find /etc/systemd/system -path */slurmd* -not -type d": "",
	} {
		if r, _ := s.guest.Run(s.ctx, strings.Fields(command)...); strings.TrimSpace(r.Stdout) != want {
			s.t.Errorf("%s: %q, want %q", command, r.Stdout, want)
		}
	}
	s.holdsNowhere("after the node has left", secrets, append(o.answers(joined), o.answers(left)...)...)
	for _, run := range []operation{joined, left} {
		s.proves(run, o.trust)
	}
}
