package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
)

func TestAClientFileThatCannotBeUsedIsRefusedWithACode(t *testing.T) {
	root := string(pki.MarshalCerts(pkitest.New(t).Root()))
	write := func(tokenFile, token string, mode os.FileMode) string {
		dir := t.TempDir()
		file := clientfile.File{Broker: "https://127.0.0.1:7440", CA: root, TokenFile: tokenFile}
		if err := errors.Join(file.Write(filepath.Join(dir, "client.yaml")), os.WriteFile(filepath.Join(dir, "token"), []byte(token), mode)); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "client.yaml")
	}
	for path, code := range map[string]string{
		write("token", "hso_t\n", 0o600):   "",
		write("token", "hso_t\n", 0o644):   "token_file_open",
		write("token", "two words", 0o600): "token_malformed",
		write("away", "", 0o600):           "token_file_unreadable",
		write("", "", 0o600):               "token_missing",
		"/nowhere/client.yaml":             "config_not_found",
	} {
		c, err := FromFile(path)
		if got := Code(err); got != code {
			t.Errorf("%q, want %q: %v", got, code, err)
		}
		if code == "" && (c == nil || c.opts.Token != "hso_t" || c.Broker() != "https://127.0.0.1:7440") {
			t.Errorf("%+v", c)
		}
	}
}

// A token_file "-" would mean stdin where the client file is in the working directory, and a file
// elsewhere.
func TestAClientFileThatNamesStdinIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	file := clientfile.File{Broker: "https://127.0.0.1:7440", CA: string(pki.MarshalCerts(pkitest.New(t).Root())), TokenFile: "-"}
	if err := file.Write("client.yaml"); err != nil {
		t.Fatal(err)
	}
	if c, err := FromFile("client.yaml"); c != nil || Code(err) != "config_invalid" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestACodeIsThatOfTheFailureInside(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("a stranger's"), ""},
		{fmt.Errorf("cannot let ann in: %w", broker.Errorf(broker.Refused, "node_status", "no")), "node_status"},
	} {
		if got := Code(row.err); got != row.want {
			t.Errorf("%v: %q, want %q", row.err, got, row.want)
		}
	}
}
