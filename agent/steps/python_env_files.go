package steps

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Limits on what is read of an environment.
const (
	maxDists     = 5000
	maxDistList  = 64 << 20
	maxEnvFiles  = 1_000_000
	maxEnvBytes  = 256 << 30
	envFileChunk = 1 << 20
)

// recordSums are the algorithms of the hashes in a list of files.
var recordSums = map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// installed is what an environment has: its packages, and a digest of their lists of files.
type installed struct {
	dists  []string
	digest string
}

// installedFiles reads the files of an environment, and holds them against the lists.
type installedFiles struct {
	root  *machine.Below // the environment
	site  string         // site-packages, below root
	own   hash.Hash      // of the lists, and of files whose list has no hash
	buf   []byte
	files int
	bytes int64
}

// installed lists the packages of the environment, and holds each file against the hash in its package's
// list. A file that is not as it was installed is a fault with the code pip_failed. What Python compiles
// is not read.
func (p *pythonStep) installed(ctx context.Context) (all installed, err error) {
	root, err := p.m.Below(p.dir)
	if err != nil {
		return all, err
	}
	defer root.Close()
	i := &installedFiles{root: root, site: path.Join("lib", p.interpreter, "site-packages"), own: sha256.New(), buf: make([]byte, envFileChunk)}
	if all.dists, err = i.dists(); err != nil {
		return all, err
	}
	for _, dist := range all.dists {
		if err := i.check(ctx, dist); err != nil {
			return all, err
		}
	}
	all.digest = "sha256:" + hex.EncodeToString(i.own.Sum(nil))
	return all, nil
}

// notInstalled is the fault of an environment that is not as pip has made it.
func notInstalled(dist, what string, args ...any) error {
	return taskcatalog.Errorf(CodePipFailed, "the environment is not what its lists of files say: %s of %s",
		taskcatalog.Clean(fmt.Sprintf(what, args...), 300), taskcatalog.Clean(dist, 100))
}

func (i *installedFiles) dists() (dists []string, err error) {
	names, err := i.root.Names(i.site)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".dist-info") {
			dists = append(dists, name)
		}
	}
	if len(dists) > maxDists {
		return nil, taskcatalog.Errorf(CodePipFailed, "the environment has more than %d packages", maxDists)
	}
	slices.Sort(dists)
	return dists, nil
}

// check holds the files of a package against its list.
func (i *installedFiles) check(ctx context.Context, dist string) error {
	record := path.Join(i.site, dist, "RECORD")
	raw, err := i.list(record)
	if err != nil {
		return err
	}
	if raw == nil {
		return notInstalled(dist, "the list of files is missing or too long")
	}
	fmt.Fprintf(i.own, "%x %q\n", sha256.Sum256(raw), dist)
	rows := csv.NewReader(strings.NewReader(string(raw)))
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return notInstalled(dist, "the list of files cannot be read")
		}
		name := path.Join(i.site, row[0])
		switch {
		case path.IsAbs(row[0]) || name == ".." || strings.HasPrefix(name, "../"):
			return notInstalled(dist, "%q leads out of the environment", row[0])
		case name == record, strings.HasSuffix(name, ".pyc"):
			continue
		}
		if i.files++; i.files > maxEnvFiles {
			return taskcatalog.Errorf(CodePipFailed, "the environment has more than %d files", maxEnvFiles)
		}
		row = append(row, "", "")
		if err := i.file(ctx, dist, name, row[1], row[2]); err != nil {
			return err
		}
	}
}

// list reads a list of files; nil: it is none.
func (i *installedFiles) list(name string) ([]byte, error) {
	f, err := i.root.Open(name)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxDistList+1))
	if len(raw) > maxDistList {
		return nil, nil
	}
	return raw, err
}

// file holds a file against a row of its list. A row without a hash is of a file that no wheel should
// have: its content becomes a part of the digest.
func (i *installedFiles) file(ctx context.Context, dist, name, want, size string) error {
	f, err := i.root.Open(name)
	if missing(err) {
		return notInstalled(dist, "%s is missing or no file", name)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if i.bytes += info.Size(); i.bytes > maxEnvBytes {
		return taskcatalog.Errorf(CodePipFailed, "the environment has more than %d bytes", int64(maxEnvBytes))
	}
	algorithm, text, _ := strings.Cut(want, "=")
	if want == "" {
		algorithm = "sha256"
	}
	sum := recordSums[algorithm]
	if sum == nil {
		return notInstalled(dist, "%s has a hash of another kind than sha256, sha384 and sha512", name)
	}
	if n, err := strconv.ParseInt(size, 10, 64); size != "" && (err != nil || n != info.Size()) {
		return notInstalled(dist, "%s has another length", name)
	}
	h := sum()
	if err := i.read(ctx, h, io.LimitReader(f, info.Size()+1)); err != nil {
		return err
	}
	switch got := base64.RawURLEncoding.EncodeToString(h.Sum(nil)); {
	case want == "":
		fmt.Fprintf(i.own, "%s %q\n", got, name)
	case strings.TrimRight(text, "=") != got:
		return notInstalled(dist, "%s has another content", name)
	}
	return nil
}

func (i *installedFiles) read(ctx context.Context, to hash.Hash, from io.Reader) error {
	for ctx.Err() == nil {
		n, err := from.Read(i.buf)
		to.Write(i.buf[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
