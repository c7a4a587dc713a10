package cloudinit

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"
)

//go:embed units
var unitFiles embed.FS

var units = template.Must(template.ParseFS(unitFiles, "units/*.service"))

const (
	mainUnit  = "hostler-bootstrap.service"
	clockUnit = "hostler-bootstrap-clock.service"
	fetchUnit = "hostler-bootstrap-fetch@.service"

	defaultClockWait = 30 * time.Second
)

// agentConfig is the agent's config file.
type agentConfig struct {
	Broker       string `yaml:"broker"`
	CASHA256     string `yaml:"ca_sha256"`
	TokenFile    string `yaml:"token_file"`
	MAASSystemID string `yaml:"maas_system_id,omitempty"`
}

type unitData struct {
	BrokerURL    string
	CASHA256     string
	MAASSystemID string
	ClockSeconds int
	Fetches      []string
	LockUser     string // the enrolment ends this user's password
}

// agentLayer makes the machine a node: it installs the agent and enrols.
func (in *Input) agentLayer(d *data) error {
	config, err := yaml.Marshal(agentConfig{
		Broker: in.BrokerURL, CASHA256: in.CASHA256, TokenFile: agentDir + "enroll.token", MAASSystemID: in.MAASSystemID,
	})
	if err != nil {
		return err
	}
	d.file("0644", agentDir+"config.yaml", string(config))
	d.file("0600", agentDir+"enroll.token", in.Token.Reveal()+"\n")
	if in.Package != nil {
		d.file("0644", bootstrapDir+"ca.pem", in.RootPEM)
		for _, name := range []string{"agent.deb", "agent.deb.unverified"} {
			d.file("0644", bootstrapDir+name+".sha256", in.Package.SHA256+"  "+name+"\n")
		}
	}
	about := unitData{
		BrokerURL: in.BrokerURL, CASHA256: in.CASHA256, MAASSystemID: in.MAASSystemID,
		ClockSeconds: int(max(in.ClockWait, time.Second) / time.Second),
	}
	if in.ClockWait == 0 {
		about.ClockSeconds = int(defaultClockWait / time.Second)
	}
	if u := in.DeployUser; u != nil && u.PasswordHash != "" {
		about.LockUser = u.Name
	}
	names := []string{clockUnit, mainUnit}
	for i, s := range in.sources() {
		d.file("0644", fmt.Sprintf("%ssource-%d", bootstrapDir, i), "URL="+s.url+"\nTLS="+s.tls+"\n")
		about.Fetches = append(about.Fetches, fmt.Sprintf("hostler-bootstrap-fetch@%d.service", i))
	}
	if len(about.Fetches) > 0 {
		names = append(names, fetchUnit)
	}
	for _, name := range names {
		if err := d.unit(name, about); err != nil {
			return err
		}
	}
	for i := 1; i < len(about.Fetches); i++ {
		// In sequence: a later source is not asked for a package that an earlier source had.
		d.file("0644", unitDir+about.Fetches[i]+".d/order.conf", "[Unit]\nAfter="+about.Fetches[i-1]+"\n")
	}
	d.wanted("multi-user.target", clockUnit, clockUnit)
	d.wanted("multi-user.target", mainUnit, mainUnit)
	return nil
}

func (d *data) unit(name string, about unitData) error {
	var text bytes.Buffer
	if err := units.ExecuteTemplate(&text, name, about); err != nil {
		return err
	}
	d.file("0644", unitDir+name, text.String())
	return nil
}

// source is a place from which a package may be fetched, and how curl trusts it.
type source struct{ url, tls string }

func (in *Input) sources() []source {
	if in.Package == nil {
		return nil
	}
	broker := in.packageURL()
	list := []source{{broker, "--cacert " + bootstrapDir + "ca.pem"}}
	for _, m := range in.Package.Mirrors {
		list = append(list, source{m, ""})
	}
	return append(list, source{broker, "--insecure"})
}

func (in *Input) packageURL() string {
	return in.BrokerURL + "/internal/v1/packages/sha256/" + in.Package.SHA256
}
