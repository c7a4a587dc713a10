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
	agentDir     = "/etc/hostler-agent/"
	bootstrapDir = "/etc/hostler-bootstrap/"
	unitDir      = "/etc/systemd/system/"

	mainUnit  = "hostler-bootstrap.service"
	clockUnit = "hostler-bootstrap-clock.service"
	fetchUnit = "hostler-bootstrap-fetch@.service"

	defaultClockWait = 30 * time.Second
)

// file is an entry of write_files.
type file struct {
	Path        string `yaml:"path"`
	Permissions string `yaml:"permissions"`
	Content     string `yaml:"content"`
}

type cloudConfig struct {
	WriteFiles []file     `yaml:"write_files"`
	RunCmd     [][]string `yaml:"runcmd,flow"`
}

// Render returns the cloud-config that makes a machine a node, whole: it is
// user-data as it is. It holds the token. Code: bootstrap_invalid.
func Render(in Input) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	config, err := yaml.Marshal(agentConfig{
		Broker: in.BrokerURL, CASHA256: in.CASHA256, TokenFile: agentDir + "enroll.token", MAASSystemID: in.MAASSystemID,
	})
	if err != nil {
		return "", err
	}
	doc := cloudConfig{WriteFiles: []file{
		{agentDir + "config.yaml", "0644", string(config)},
		{agentDir + "enroll.token", "0600", in.Token.Reveal() + "\n"},
	}}
	sources := in.sources()
	if in.Package != nil {
		doc.WriteFiles = append(doc.WriteFiles, file{bootstrapDir + "ca.pem", "0644", in.RootPEM})
		for _, name := range []string{"agent.deb", "agent.deb.unverified"} {
			doc.WriteFiles = append(doc.WriteFiles, file{bootstrapDir + name + ".sha256", "0644", in.Package.SHA256 + "  " + name + "\n"})
		}
	}
	data := unitData{BrokerURL: in.BrokerURL, CASHA256: in.CASHA256, MAASSystemID: in.MAASSystemID, ClockSeconds: int(max(in.ClockWait, time.Second) / time.Second)}
	if in.ClockWait == 0 {
		data.ClockSeconds = int(defaultClockWait / time.Second)
	}
	names := []string{clockUnit, mainUnit}
	for i, s := range sources {
		doc.WriteFiles = append(doc.WriteFiles, file{fmt.Sprintf("%ssource-%d", bootstrapDir, i), "0644", "URL=" + s.url + "\nTLS=" + s.tls + "\n"})
		data.Fetches = append(data.Fetches, fmt.Sprintf("hostler-bootstrap-fetch@%d.service", i))
	}
	if len(sources) > 0 {
		names = append(names, fetchUnit)
	}
	for _, name := range names {
		var text bytes.Buffer
		if err := units.ExecuteTemplate(&text, name, data); err != nil {
			return "", err
		}
		doc.WriteFiles = append(doc.WriteFiles, file{unitDir + name, "0644", text.String()})
	}
	for i := 1; i < len(sources); i++ {
		// One after the other: a later source is not asked for what an earlier one had.
		after := fmt.Sprintf("[Unit]\nAfter=%s\n", data.Fetches[i-1])
		doc.WriteFiles = append(doc.WriteFiles, file{unitDir + data.Fetches[i] + ".d/order.conf", "0644", after})
	}
	doc.RunCmd = [][]string{
		{"systemctl", "daemon-reload"},
		{"systemctl", "enable", clockUnit, mainUnit},
		{"systemctl", "start", "--no-block", clockUnit, mainUnit},
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return "", err
	}
	return "#cloud-config\n" + string(text), nil
}

// agentConfig is what the agent reads in its config file.
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
}

// source is where a package may be fetched, and how curl trusts it.
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
