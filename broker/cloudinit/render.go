package cloudinit

import (
	"fmt"
	"strings"

	"github.com/hostler/hostler/pki"
)

// Version is the version of the layers and of their layout.
const Version = 1

// The parts, by the names under which cloud-init keeps them.
const (
	configPart = "hostler-cloud-config"
	dataPart   = "hostler-data"
	scriptPart = "hostler-lay-out"

	boundary = "==hostler-first-boot=="
)

// Render returns complete user-data that makes a machine a node. It holds the token. Code:
// bootstrap_invalid.
func Render(in Input) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	d := newData(&in)
	names, err := in.layers(d)
	if err != nil {
		return "", err
	}
	if err := in.agentLayer(d); err != nil {
		return "", err
	}
	d.file("0644", bootstrapDir+"bundle", fmt.Sprintf("version %d\nlayers %s\n", Version, strings.Join(names, " ")))
	var m message
	if in.DeployUser != nil {
		config, err := in.DeployUser.cloudConfig()
		if err != nil {
			return "", err
		}
		m.part("text/cloud-config", configPart, config)
	}
	m.part("text/x-shellscript", dataPart, d.end(&in))
	m.part("text/cloud-boothook", scriptPart, "#cloud-boothook\n"+script("lay-out"))
	return m.end(), nil
}

// Redacted returns the input with placeholders instead of its secrets: text rendered from it may be
// shown and compared.
func (in Input) Redacted() Input {
	in.Token = pki.EnrollToken("hsn_" + strings.Repeat("0", 43))
	if u := in.DeployUser; u != nil && u.PasswordHash != "" {
		bare := *u
		bare.PasswordHash = hashPrefix + strings.Repeat("0", SaltLength) + "$" + strings.Repeat("0", hashLength)
		in.DeployUser = &bare
	}
	return in
}

// message is a MIME multipart as cloud-init accepts it. Every part is plain text, so that the agent
// finds a secret wherever cloud-init keeps a part.
type message struct{ text strings.Builder }

func (m *message) part(ctype, name, content string) {
	if m.text.Len() == 0 {
		fmt.Fprintf(&m.text, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	}
	fmt.Fprintf(&m.text,
		"--%s\nMIME-Version: 1.0\nContent-Type: %s; charset=\"us-ascii\"\nContent-Transfer-Encoding: 7bit\nContent-Disposition: attachment; filename=%q\n\n%s", boundary, ctype, name, content)
}

func (m *message) end() string {
	fmt.Fprintf(&m.text, "--%s--\n", boundary)
	return m.text.String()
}
