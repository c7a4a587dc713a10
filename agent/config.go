package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Default paths, unless a flag or the config file sets others.
const (
	DefaultConfigFile = "/etc/hostler-agent/config.yaml"
	DefaultStateDir   = "/var/lib/hostler-agent"
	DefaultStatusFile = "/run/hostler-agent/status.json"
)

// CodeBadConfig is the code of every fault of the config file.
const CodeBadConfig taskcatalog.Code = "config_invalid"

// File is the config file. Only its owner, root, changes it; no task does.
type File struct {
	Broker       string      `yaml:"broker"`         // https://host[:port]
	CASHA256     string      `yaml:"ca_sha256"`      // hex SHA-256 of the broker's root
	TokenFile    string      `yaml:"token_file"`     // absolute; the token itself is never in this file
	MAASSystemID string      `yaml:"maas_system_id"` // for a token bound to a MAAS system id
	StateDir     string      `yaml:"state_dir"`      // absolute
	StatusFile   string      `yaml:"status_file"`    // absolute
	Key          string      `yaml:"key"`            // ed25519, or p256 where a TPM or FIPS requires it
	Allow        inbox.Allow `yaml:"allow"`          // probe, mutating or all
	Scratch      []string    `yaml:"scratch"`        // absolute path patterns such as /share*
	// Form is the format version of this file; zero means the first. A newer form is refused.
	Form int `yaml:"form"`
	// UpdateWatch is how long a confirmed new version of the agent runs before it becomes the
	// fallback of the next update.
	UpdateWatch time.Duration `yaml:"update_watch"`
	// ContainerRoots are emptied in addition to the directories of docker and containerd. The value
	// names the service to stop meanwhile.
	ContainerRoots map[string]string `yaml:"container_roots"`
	Capabilities   map[string]string `yaml:"capabilities"` // capabilities that cannot be detected, such as weka
}

var capabilityKey = lazyregexp.New(`^[a-z][a-z0-9_.-]*$`)

const maxConfig = 64 << 10

// LoadFile reads the config file. A missing file counts as empty if name is the default path. A
// file writable by anyone but its owner is refused, because the config file decides what signed
// tasks may do. Errors have CodeBadConfig.
func LoadFile(name string) (File, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && name == DefaultConfigFile {
		return ParseFile(nil)
	}
	if err != nil {
		return File{}, taskcatalog.Errorf(CodeBadConfig, "cannot read config: %v", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return File{}, taskcatalog.Errorf(CodeBadConfig, "cannot read config: %v", err)
	}
	if err := checkOwner(info); err != nil {
		return File{}, taskcatalog.Errorf(CodeBadConfig, "cannot use config %s: %v", name, err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return File{}, taskcatalog.Errorf(CodeBadConfig, "cannot read config %s: %v", name, err)
	}
	file, err := ParseFile(raw)
	if err != nil {
		return File{}, taskcatalog.Errorf(CodeBadConfig, "cannot use config %s: %v", name, err)
	}
	return file, nil
}

func checkOwner(info fs.FileInfo) error {
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case owner != 0 && int(owner) != os.Geteuid():
		return fmt.Errorf("it belongs to uid %d (chown root)", owner)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("its mode %04o lets others write it (chmod 644)", info.Mode().Perm())
	}
	return nil
}

// ParseFile decodes a config file strictly and fills in the defaults.
func ParseFile(raw []byte) (File, error) {
	if len(raw) > maxConfig {
		return File{}, fmt.Errorf("it is larger than %d bytes", maxConfig)
	}
	var f File
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return File{}, errors.New(taskcatalog.Clean(err.Error(), 300))
	}
	setDefault(&f.StateDir, DefaultStateDir)
	setDefault(&f.StatusFile, DefaultStatusFile)
	setDefault(&f.Key, pki.Ed25519)
	setDefault(&f.Allow, inbox.AllowAll)
	setDefault(&f.UpdateWatch, selfupdate.DefaultProof)
	return f, f.check()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// form returns the form that another version of the agent must be able to read.
func (f *File) form() int { return max(f.Form, 1) }

func (f *File) check() error {
	if !release.State.Reads(f.form()) {
		return fmt.Errorf("form: the config has form %d, and this agent reads %d to %d (run the agent version that the config was written for)", f.Form, release.State.ReadsMin, release.State.ReadsMax)
	}
	if !f.Allow.Valid() {
		return fmt.Errorf("allow: %q is not one of probe, mutating, all", taskcatalog.Clean(string(f.Allow), 40))
	}
	if f.UpdateWatch < 0 || f.UpdateWatch > time.Hour {
		return fmt.Errorf("update_watch: %s is not between 1s and 1h", f.UpdateWatch)
	}
	if f.Key != pki.Ed25519 && f.Key != pki.P256 {
		return fmt.Errorf("key: %q is neither %s nor %s", taskcatalog.Clean(f.Key, 40), pki.Ed25519, pki.P256)
	}
	for key, value := range f.Capabilities {
		if !capabilityKey.MatchString(key) || len(key) > 128 || len(value) > 128 {
			return fmt.Errorf("capabilities: %q is not a valid capability name, or its value is longer than 128 bytes",
				taskcatalog.Clean(key, 80))
		}
	}
	paths := slices.Concat([]string{f.StateDir, f.StatusFile}, f.Scratch, slices.Collect(maps.Keys(f.ContainerRoots)))
	if f.TokenFile != "" {
		paths = append(paths, f.TokenFile)
	}
	for _, p := range paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return fmt.Errorf("path %q is not absolute and plain", taskcatalog.Clean(p, 100))
		}
	}
	for _, p := range f.Scratch {
		// A leading wildcard would match the system's own directories as well.
		if _, err := filepath.Match(p, "/"); err != nil || p == "/" || strings.ContainsAny(p[1:2], "*?[\\") {
			return fmt.Errorf("scratch: %q is not a valid pattern of scratch directories", taskcatalog.Clean(p, 100))
		}
	}
	return nil
}
