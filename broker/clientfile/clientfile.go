package clientfile

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// maxFile is the largest accepted client file or token file, in bytes.
const maxFile = 64 << 10

// File is the content of a client.yaml.
type File struct {
	Broker    string `yaml:"broker"`               // https://host:port of the operators' listener
	CA        string `yaml:"ca"`                   // the root certificate, PEM
	TokenFile string `yaml:"token_file,omitempty"` // absolute, or relative to the client file
	// SignInFile is a person's sign-in, instead of a token; absolute, or relative to the client file.
	SignInFile string `yaml:"sign_in_file,omitempty"`
}

// Load reads and checks a client file. Load resolves a relative TokenFile or SignInFile against the
// folder of the client file. Codes: config_not_found, config_invalid.
func Load(path string) (*File, error) {
	raw, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, broker.Errorf(broker.NotFound, "config_not_found",
			"cannot read %s: there is no such file (the broker writes client.yaml into its data directory; see hostler help login)", path)
	}
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "config_invalid", "cannot read %s: %v", path, cause(err))
	}
	var f File
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return nil, broker.Errorf(broker.Invalid, "config_invalid", "cannot read %s: %s (write it again with hostler login)", path,
			oneLine(err))
	}
	if err := f.check(); err != nil {
		return nil, broker.Errorf(broker.Invalid, "config_invalid", "cannot use %s: %v (write it again with hostler login)", path, err)
	}
	for _, beside := range []*string{&f.TokenFile, &f.SignInFile} {
		if *beside != "" && !filepath.IsAbs(*beside) {
			*beside = filepath.Join(filepath.Dir(path), *beside)
		}
	}
	return &f, nil
}

func (f *File) check() error {
	u, err := url.Parse(f.Broker)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return fmt.Errorf("broker must be https://host:port")
	}
	if _, err := f.Roots(); err != nil {
		return fmt.Errorf("ca: %w", err)
	}
	if f.TokenFile != "" && f.SignInFile != "" {
		return errors.New("token_file and sign_in_file are both there, and one of them counts")
	}
	if f.TokenFile == "-" {
		return errors.New("token_file must name a file, and - would mean the stdin of the program that reads it")
	}
	return nil
}

// Root returns the first pinned root certificate.
func (f *File) Root() (*x509.Certificate, error) {
	certs, err := pki.ParseCerts([]byte(f.CA))
	if err != nil {
		return nil, err
	}
	return certs[0], nil
}

// Roots returns the pinned root certificates; the broker's chain must end at one of them.
func (f *File) Roots() (*x509.CertPool, error) {
	certs, err := pki.ParseCerts([]byte(f.CA))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}

// Write writes the file to path with mode 0600, completely or not at all.
func (f *File) Write(path string) error {
	raw, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	return WritePrivate(path, raw)
}

// WritePrivate writes content to path with mode 0600, completely or not at all: it writes and syncs
// a temporary file in the same directory, renames the file, and syncs the directory.
func WritePrivate(path string, content []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // no effect after the rename
	if _, err := tmp.Write(content); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return raw, err
}

// cause returns the cause of a file error, without the path.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// oneLine joins the lines of a YAML error.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
