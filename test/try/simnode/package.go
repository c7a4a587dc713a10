package simnode

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"os"
	"path/filepath"

	"github.com/hostler/hostler/broker/deb/debtest"
	"github.com/hostler/hostler/taskcatalog"
)

// Profiles are the node's resolver profiles, a file for hostler resolver push.
//
//go:embed profiles.yaml
var Profiles []byte

// Version is the version of the node's agent.
const Version = "0.1.0"

// Package writes the agent's package to a folder, and returns its file. The package holds the
// program and the link to its version, which is what validate_clean compares with the node.
func Package(program, folder string) (file string, err error) {
	raw, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	data, err1 := packed(
		entry{tar.Header{Typeflag: tar.TypeReg, Name: "." + taskcatalog.AgentProgram(Version), Mode: 0o755, Size: int64(len(raw))}, raw},
		entry{
			tar.Header{Typeflag: tar.TypeSymlink, Name: "." + taskcatalog.AgentFolder + "/packaged", Linkname: "versions/" + Version},
			nil,
		},
	)
	control, err2 := packed()
	deb := debtest.Join(
		debtest.Part{Name: "debian-binary", Content: "2.0\n"},
		debtest.Part{Name: "control.tar.gz", Content: control},
		debtest.Part{Name: "data.tar.gz", Content: data},
	)
	file = filepath.Join(folder, "hostler-agent_"+Version+"_amd64.deb")
	return file, errors.Join(err1, err2, os.WriteFile(file, deb, 0o600))
}

type entry struct {
	tar.Header
	content []byte
}

// packed is a tar file of the entries, compressed.
func packed(entries ...entry) (string, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		e.Uid = os.Getuid() // who runs this program owns every file of the node
		if err := w.WriteHeader(&e.Header); err != nil {
			return "", err
		}
		if _, err := w.Write(e.content); err != nil {
			return "", err
		}
	}
	err = errors.Join(w.Close(), z.Close())
	return out.String(), err
}
