package cloudinit

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

const (
	agentDir     = "/etc/hostler-agent/"
	bootstrapDir = "/etc/hostler-bootstrap/"
	unitDir      = "/etc/systemd/system/"
)

// data is the part that holds all values: files and links to lay out, and units to start, one line
// each, and a file's content as lines behind a bar. It begins as a script of /bin/true, because
// cloud-init keeps and runs scripts.
type data struct {
	text  strings.Builder
	start []string
}

// newData begins the part. The part's id differs for each token, and discloses nothing of the
// token.
func newData(in *Input) *data {
	d := new(data)
	fmt.Fprintf(&d.text, "#!/bin/true\nbundle %d %s\n", Version, in.id())
	return d
}

func (in *Input) id() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte("hostler first boot\x00"+in.Token.Reveal())))[:16]
}

func (d *data) file(mode, path, content string) {
	fmt.Fprintf(&d.text, "file %s %s\n", mode, path)
	for line := range strings.Lines(content) {
		d.text.WriteString("|" + strings.TrimSuffix(line, "\n") + "\n")
	}
}

// wanted has a unit, which may be an instance of a template file, started now and at each boot.
func (d *data) wanted(target, unit, file string) {
	fmt.Fprintf(&d.text, "link %s%s.wants/%s %s%s\n", unitDir, target, unit, unitDir, file)
	d.start = append(d.start, unit)
}

// end closes the part, so that a truncated part is recognised.
func (d *data) end(in *Input) string {
	for _, unit := range d.start {
		d.text.WriteString("start " + unit + "\n")
	}
	d.text.WriteString("end " + in.id() + "\n")
	return d.text.String()
}
