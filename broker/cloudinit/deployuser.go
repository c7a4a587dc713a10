package cloudinit

import (
	"fmt"

	"github.com/go-crypt/crypt/algorithm/shacrypt"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// DeployUser is the account by which a site's people reach the machine.
type DeployUser struct {
	Name         string
	SSHKey       string // a line of authorized_keys
	PasswordHash string // made by HashPassword; empty: the password is locked
}

// The salt of a password's hash begins with a mark, by which the agent finds the hash in
// cloud-init's files.
const (
	hashRounds = 100_000
	saltMark   = "hostler."
	hashPrefix = "$6$rounds=100000$" + saltMark
	hashLength = 86 // of SHA-512 in crypt's base64

	// SaltLength is the length of the salt after the mark.
	SaltLength = 8
)

var (
	accountForm = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,31}$`)
	keyForm     = lazyregexp.New(`^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,1000}={0,2}( [A-Za-z0-9@._-]{1,200})?$`)
	hashForm    = lazyregexp.New(`^\$6\$rounds=100000\$hostler\.[./A-Za-z0-9]{8}\$[./A-Za-z0-9]{86}$`)
	saltForm    = lazyregexp.New(`^[./A-Za-z0-9]{8}$`)
)

// HashPassword returns crypt's SHA-512 of a password, with a salt of 8 characters of crypt's base64
// after the mark.
func HashPassword(password, salt string) (string, error) {
	if !saltForm.MatchString(salt) {
		return "", fmt.Errorf("cannot hash a password: the salt is not 8 characters of ./A-Za-z0-9")
	}
	h, err := shacrypt.New(shacrypt.WithSHA512(), shacrypt.WithIterations(hashRounds))
	if err != nil {
		return "", err
	}
	digest, err := h.HashWithSalt(password, []byte(saltMark+salt))
	if err != nil {
		return "", err
	}
	return digest.Encode(), nil
}

type account struct {
	Name           string   `yaml:"name"`
	Gecos          string   `yaml:"gecos"`
	Shell          string   `yaml:"shell"`
	Sudo           string   `yaml:"sudo"`
	LockPassword   bool     `yaml:"lock_passwd"`
	HashedPassword string   `yaml:"hashed_passwd,omitempty"`
	AuthorizedKeys []string `yaml:"ssh_authorized_keys"`
}

// cloudConfig returns the part for cloud-init's own modules. It must never have write_files or
// runcmd: MAAS's vendor-data has both, and user-data with either replaces it whole.
func (u *DeployUser) cloudConfig() (string, error) {
	text, err := yaml.Marshal(struct {
		Users []any `yaml:"users"`
	}{[]any{"default", account{
		Name: u.Name, Gecos: "Hostler deploy user", Sudo: "ALL=(ALL) NOPASSWD:ALL",
		Shell:        "/bin/bash", // allowed: what people log in to
		LockPassword: u.PasswordHash == "", HashedPassword: u.PasswordHash, AuthorizedKeys: []string{u.SSHKey},
	}}})
	return "#cloud-config\n" + string(text), err
}

func (u *DeployUser) check() error {
	switch {
	case u == nil:
		return nil
	case !accountForm.MatchString(u.Name) || u.Name == "root":
		return invalid("the deploy user %q is not a valid account name", u.Name)
	case !keyForm.MatchString(u.SSHKey):
		return invalid("the deploy user's SSH key is not one line of authorized_keys")
	case u.PasswordHash != "" && !hashForm.MatchString(u.PasswordHash):
		return invalid("the deploy user's password is not a valid hash")
	}
	return nil
}
