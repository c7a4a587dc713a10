package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// AptDir is where a machine has the files of AptSource, and AptLine names them to apt.
const (
	AptDir  = "/srv/apt"
	AptLine = "deb [signed-by=" + AptDir + "/site.gpg] file:" + AptDir + " ./\n"
)

// AptSource makes a signed package source of packages, and returns its files. It needs gpg and dpkg-deb.
// The directory is for its work, and is empty.
func AptSource(ctx context.Context, dir string, debs ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	index := ""
	for _, deb := range debs {
		raw, err := os.ReadFile(deb)
		if err != nil {
			return nil, err
		}
		control, err := output(ctx, "dpkg-deb", "--field", deb)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(deb)
		index += fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, name, len(raw), sha256.Sum256(raw))
		files[name] = raw
	}
	release := fmt.Sprintf("Date: Sat, 28 Nov 2026 00:00:00 UTC\nSHA256:\n %x %d Packages\n", sha256.Sum256([]byte(index)), len(index))
	unsigned := filepath.Join(dir, "Release")
	if err := os.WriteFile(unsigned, []byte(release), 0o600); err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "gpg")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	gpg := []string{"gpg", "--batch", "--quiet", "--homedir", home, "--passphrase", "", "--pinentry-mode", "loopback"}
	if _, err := output(ctx, append(gpg, "--quick-gen-key", "site@example", "rsa3072", "sign", "never")...); err != nil {
		return nil, err
	}
	// gpg leaves an agent running, which ends with its directory.
	key, err := output(ctx, append(gpg, "--export")...)
	if err != nil {
		return nil, err
	}
	signed, err := output(ctx, append(gpg, "--output", "-", "--clearsign", unsigned)...)
	files["Packages"], files["InRelease"], files["site.gpg"] = []byte(index), signed, key
	return files, err
}

// output runs a program, and returns what it prints.
func output(ctx context.Context, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%q: %w\n%s", argv, err, said.String())
	}
	return out, err
}
