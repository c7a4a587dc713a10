package sshseed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/pkg/sftp"

	"github.com/hostler/hostler/taskcatalog"
)

// instanceID is the file in which cloud-init keeps MAAS's id of the machine, as the instance-id of
// MAAS's metadata.
const instanceID = "/var/lib/cloud/data/instance-id"

const longestID = 64 // bytes

// checkID checks that the machine has the expected id.
func (m *machine) checkID(ctx context.Context, file, systemID string) error {
	var found []byte
	err := m.files(ctx, func(c *sftp.Client) error {
		f, err := c.Open(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		defer f.Close()
		found, err = io.ReadAll(io.LimitReader(f, longestID+1))
		return err
	})
	if err != nil {
		return failed(codeOf(err, OtherMachine), m.at, "the machine does not report its identity", err)
	}
	if id := string(bytes.TrimSpace(found)); systemID == "" || id != systemID {
		return failed(OtherMachine, m.at, "another machine answers",
			fmt.Errorf("its system id is %q instead of %s", taskcatalog.Clean(id, longestID), systemID))
	}
	return nil
}

// words returns the longer words of a text: each secret of the credentials is such a word.
func words(text []byte) []string {
	var long []string
	for _, w := range strings.Fields(string(text)) {
		if len(w) >= 8 {
			long = append(long, strings.Trim(w, `"'`))
		}
	}
	return long
}

// hide removes secrets from a machine's output.
func (m *machine) hide(said string) string {
	for _, s := range m.secrets {
		said = strings.ReplaceAll(said, s, "[…]")
	}
	return said
}
