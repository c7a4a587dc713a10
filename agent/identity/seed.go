package identity

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/agent/machine"
)

// The places of cloud-init's user-data, this instance's first.
var seedFiles = []string{
	"/var/lib/cloud/instance/user-data.txt",
	"/var/lib/cloud/seed/nocloud/user-data",
	"/var/lib/cloud/seed/nocloud-net/user-data",
}

const maxSeed = 1 << 20

// Seed is the key "hostler" of the cloud-config with which the machine booted.
func Seed(m *machine.Machine) Source {
	return Source{Name: "the cloud-init seed", Read: func() (*Bootstrap, error) {
		for _, name := range seedFiles {
			raw, err := read(m, name, maxSeed)
			if err != nil {
				return nil, err
			}
			b, err := parseSeed(raw)
			if b != nil || err != nil {
				return b, err
			}
		}
		return nil, nil
	}}
}

// parseSeed returns nil for user-data of other kinds than cloud-config, and for cloud-config
// without the key hostler.
func parseSeed(raw []byte) (*Bootstrap, error) {
	if !bytes.HasPrefix(raw, []byte("#cloud-config")) {
		return nil, nil
	}
	var doc map[string]yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, nil // cloud-init itself reports this on the console
	}
	node, ok := doc["hostler"]
	if !ok {
		return nil, nil
	}
	text, err := yaml.Marshal(&node)
	if err != nil {
		return nil, fmt.Errorf("hostler: %v", err)
	}
	b := new(Bootstrap)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("the key hostler is not a map of broker, ca_sha256, token and maas_system_id")
	}
	return b, nil
}
