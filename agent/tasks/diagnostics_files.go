package tasks

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// pack builds a gzipped tar of the collected parts. Apart from their bytes, the archive holds
// nothing of the machine.
func pack(parts []taskcatalog.DiagnosticsPart, files map[string][]byte, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	t := tar.NewWriter(zip)
	for _, p := range parts {
		raw, ok := files[p.Name]
		if !ok {
			continue
		}
		err := t.WriteHeader(&tar.Header{
			Name: p.Name, Mode: 0o600, Size: int64(len(raw)), ModTime: now.UTC().Truncate(time.Second),
			Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = t.Write(raw)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := errors.Join(t.Close(), zip.Close()); err != nil {
		return nil, err
	}
	if out.Len() > taskcatalog.MaxArchive {
		return nil, fmt.Errorf("the archive has %d bytes, more than %d", out.Len(), taskcatalog.MaxArchive)
	}
	return out.Bytes(), nil
}

const (
	slotsFolder = "/usr/lib/hostler-agent"
	updateState = "update/state.json" // below the state directory
	maxSlots    = 16
	maxUpdate   = 8 << 10
)

// slot is a version of the agent on the disk.
type slot struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256,omitempty"` // of the program
	Bytes   int64  `json:"bytes"`
	Problem string `json:"problem,omitempty"`
}

// slots returns the versions of the agent, the running version, and the result of the last update.
func (d *diagnosis) slots(ctx context.Context) (collected, error) {
	names, err := d.Machine.Names(slotsFolder + "/versions")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return collected{}, err
	}
	versions := []slot{}
	for _, name := range names[:min(len(names), maxSlots)] {
		versions = append(versions, d.slot(ctx, name))
	}
	links := map[string]string{}
	for _, name := range []string{"current", "packaged"} {
		if to, err := d.Machine.Readlink(slotsFolder + "/" + name); err == nil {
			links[name] = taskcatalog.Clean(to, 200)
		}
	}
	value := map[string]any{"running": d.Version, "links": links, "versions": versions, "versions_omitted": len(names) - len(versions)}
	raw, err := d.Machine.ReadStrict(path.Join(d.StateDir, updateState), maxUpdate)
	var state any
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		value["update"] = err.Error()
	case json.Unmarshal(raw, &state) != nil:
		value["update"] = "update/state.json is not JSON"
	default:
		value["update"] = state
	}
	return collected{value: value}, nil
}

func (d *diagnosis) slot(ctx context.Context, name string) slot {
	s := slot{Version: taskcatalog.Clean(name, 100)}
	f, err := d.Machine.OpenFile(path.Join(slotsFolder, "versions", name, "hostler-agent"))
	if err == nil {
		defer func() { _ = f.Close() }()
		sum := sha256.New()
		if s.Bytes, err = io.Copy(sum, contextReader{ctx, f}); err == nil {
			s.SHA256 = hex.EncodeToString(sum.Sum(nil))
		}
	}
	if err != nil {
		s.Problem = taskcatalog.Clean(err.Error(), 200)
	}
	return s
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (u contextReader) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// ownSecrets returns the agent's secret values on the disk: its keys, and the credentials of the
// machine's hardware sync. The agent cannot have logged a secret that it cannot read; such a secret
// is still redacted if its form matches.
func ownSecrets(h *host.Host) []string {
	var all []string
	names, _ := h.Machine.Names(h.StateDir)
	for _, name := range names {
		if strings.HasSuffix(name, ".key") {
			all = append(all, words(h, path.Join(h.StateDir, name))...)
		}
	}
	return append(all, words(h, hwSyncCredentials)...)
}

// words returns the words of a small file: lines of base64, values of YAML.
func words(h *host.Host, name string) []string {
	raw, err := h.Machine.ReadFile(name, 64<<10)
	if err != nil {
		return nil
	}
	var all []string
	for _, w := range strings.Fields(string(raw)) {
		w = strings.Trim(w, `"',`)
		if !strings.HasSuffix(w, ":") && !strings.Contains(w, "-----") && !strings.HasPrefix(w, "http") && w != "PRIVATE" {
			all = append(all, w)
		}
	}
	return all
}
