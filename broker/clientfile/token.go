package clientfile

import (
	"io"
	"os"
	"strings"

	"github.com/hostler/hostler/broker"
)

// ReadToken reads an operator token from a file, or from stdin if path is "-". A regular file that
// other users may read is refused. Codes: token_file_unreadable, token_file_open, token_malformed.
func ReadToken(path string, stdin io.Reader) (string, error) {
	raw, err := ReadSecret(path, stdin)
	if err != nil {
		return "", err
	}
	if path == "-" {
		path = "stdin"
	}
	return parseToken(raw, path)
}

// ReadSecret reads a secret from a file that only its owner may access, or from stdin if path is
// "-". The check of the mode applies to regular files. Codes: token_file_unreadable,
// token_file_open.
func ReadSecret(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		raw, err := io.ReadAll(io.LimitReader(stdin, maxFile+1))
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, "token_file_unreadable", "cannot read the token from stdin: %v", err)
		}
		if len(raw) > maxFile {
			return nil, broker.Errorf(broker.Invalid, "token_file_unreadable",
				"cannot read the token from stdin: the input is larger than %d bytes", maxFile)
		}
		return raw, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "token_file_unreadable",
			"cannot read the token file %s: %v (name another file with --token-file)", path, cause(err))
	}
	// The system sets the mode of a pipe, as of a process substitution.
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, broker.Errorf(broker.Refused, "token_file_open",
			"cannot use the token file %s: others may read it, mode %04o (chmod 600 %s, and issue a new token if others had access)", path,
			info.Mode().Perm(), path)
	}
	raw, err := readBounded(path)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "token_file_unreadable",
			"cannot read the token file %s: %v (name another file with --token-file)", path, cause(err))
	}
	return raw, nil
}

// parseToken accepts one line of printable ASCII without spaces, so that the token can go into a
// header. The error message never repeats the input.
func parseToken(raw []byte, from string) (string, error) {
	token := strings.TrimSpace(string(raw))
	bad := strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0
	if token == "" || bad || len(token) > 4096 {
		return "", broker.Errorf(broker.Invalid, "token_malformed",
			"cannot use the token from %s: the token is not one line of printable characters", from)
	}
	return token, nil
}

// CheckToken checks a token from another source, such as the environment, and returns the token
// without surrounding spaces. from names the source in the error message. Code: token_malformed.
func CheckToken(token, from string) (string, error) { return parseToken([]byte(token), from) }
