package identity

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// The codes of this package's refusals.
const (
	CodeNoIdentitySource taskcatalog.Code = "no_identity_source"
	CodeBadIdentity      taskcatalog.Code = "identity_source_invalid"
	CodeStateLocked      taskcatalog.Code = "state_locked"
	CodeStateInvalid     taskcatalog.Code = "state_invalid"
	CodeAnswerInvalid    taskcatalog.Code = "broker_answer_invalid"
)

// Bootstrap is the data that a node needs for its first contact.
type Bootstrap struct {
	Broker       string          `yaml:"broker"`    // https://host[:port]
	CASHA256     string          `yaml:"ca_sha256"` // hex SHA-256 of the root's DER
	Token        pki.EnrollToken `yaml:"token"`
	MAASSystemID string          `yaml:"maas_system_id"`
	Source       string          `yaml:"-"` // for people: where it was found
}

// Source is a possible place of a bootstrap. Read returns nil if there is none, and an error if
// there is an unusable one.
type Source struct {
	Name string
	Read func() (*Bootstrap, error)
}

// Find asks the sources in order. It fails with no_identity_source if no source names a broker, and
// with identity_source_invalid if a source is invalid.
func Find(sources []Source) (*Bootstrap, error) {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.Name
		b, err := s.Read()
		if err == nil && b != nil {
			b.Source = s.Name
			err = b.check()
		}
		if err != nil {
			return nil, taskcatalog.Errorf(CodeBadIdentity, "cannot use %s: %v", s.Name, err)
		}
		if b != nil {
			return b, nil
		}
	}
	return nil, taskcatalog.Errorf(CodeNoIdentitySource,
		"no broker is named in %s (write /etc/hostler-agent/config.yaml or run hostler-agent enroll)", strings.Join(names, ", "))
}

var tokenForm = lazyregexp.New(`^hsn_[A-Za-z0-9_-]{43}$`)

// check normalises a bootstrap. No error repeats a token.
func (b *Bootstrap) check() error {
	u, err := url.Parse(b.Broker)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return fmt.Errorf("broker %q is not https://HOST[:PORT]", taskcatalog.Clean(b.Broker, 100))
	}
	b.Broker = "https://" + u.Host
	b.CASHA256 = strings.ToLower(b.CASHA256)
	if sum, err := hex.DecodeString(b.CASHA256); err != nil || len(sum) != 32 {
		return errors.New("ca_sha256 is not the hex SHA-256 of the broker's root certificate (hostler-broker prints it)")
	}
	if b.Token != "" && !tokenForm.MatchString(b.Token.Reveal()) {
		return errors.New("the token is not an enrolment token (they begin with hsn_)")
	}
	if len(b.MAASSystemID) > 64 {
		return errors.New("maas_system_id is longer than 64 characters")
	}
	return nil
}

// Provided is a source of data that the caller has already: flags, or the config file with its
// token file. Without a broker the source is empty.
func Provided(name string, b Bootstrap, tokenFile string) Source {
	return Source{Name: name, Read: func() (*Bootstrap, error) {
		if b.Broker == "" {
			return nil, nil
		}
		found := b
		if tokenFile != "" && b.Token == "" {
			token, err := ReadToken(tokenFile)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			found.Token = token // may be empty: the file may have been removed after the enrolment
		}
		return &found, nil
	}}
}

// ReadToken reads a token from a file, or from standard input for "-".
func ReadToken(name string) (pki.EnrollToken, error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("cannot read token file: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, 4096))
	if err != nil {
		return "", fmt.Errorf("cannot read token file: %w", err)
	}
	return pki.EnrollToken(strings.TrimSpace(string(raw))), nil
}

// read returns a file of the machine, or nil if there is none.
func read(m *machine.Machine, name string, most int64) ([]byte, error) {
	raw, err := m.ReadFile(name, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}
