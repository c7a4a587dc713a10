package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// version and commit are set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown"
)

// The exit statuses, equal to those of hostler certificate verify.
const (
	exitHolds     = 0
	exitUntrusted = 1 // nothing in the file can be trusted
	exitUsage     = 2 // bad usage, or a file cannot be read or written
	exitRemarks   = 3 // authentic, but not acceptable
)

const usageText = `Usage: hostler-verify --trust TRUST-FILE [--archive] [--html PAGE] FILE

Checks a certificate, a receipt or an attestation that Hostler signed. The check needs
no network: FILE contains the evidence, and TRUST-FILE the keys. Obtain the trust file
over another channel than FILE: from the issuer's own pages, or keep an earlier one.

  --trust FILE   the trusted keys
  --archive      accept a certificate that was clean when issued, even past its valid_until
  --html FILE    also write an HTML page to FILE
  --version      print the version

Exit status: 0 authentic, clean and not past valid_until (with --archive: clean when
issued); 1 nothing in FILE can be trusted, the error's code says why; 2 a file cannot
be read or written; 3 authentic, but not acceptable for a reason that is printed.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, time.Now())) }

// options are the words of the command line.
type options struct {
	trust, html, file string
	archive, version  bool
}

// flags are the program's flags, described in usageText.
func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("hostler-verify", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.trust, "trust", "", "")
	f.StringVar(&o.html, "html", "", "")
	f.BoolVar(&o.archive, "archive", false, "")
	f.BoolVar(&o.version, "version", false, "")
	return f
}

// parse reads the command line. Flags may also follow the file's name.
func parse(args []string) (o options, err error) {
	f := o.flags()
	var files []string
	for {
		if err := f.Parse(args); err != nil {
			return o, err
		}
		if args = f.Args(); len(args) == 0 {
			break
		}
		files, args = append(files, args[0]), args[1:]
	}
	switch {
	case o.version:
	case len(files) != 1:
		return o, fmt.Errorf("%d files are given (give one file)", len(files))
	case o.trust == "":
		return o, errors.New("--trust is missing (give the file with the trusted keys)")
	default:
		o.file = files[0]
	}
	return o, nil
}

// run is one check, from its arguments to its exit status.
func run(args []string, out, problems io.Writer, now time.Time) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usageText)
		return exitHolds
	case err != nil:
		fmt.Fprintf(problems, "error: bad_usage: %s\n\n%s", taskcatalog.Clean(err.Error(), 200), usageText)
		return exitUsage
	case o.version:
		fmt.Fprintf(out, "hostler-verify %s (%s)\n", version, commit)
		return exitHolds
	}
	fail := func(status int, code, text string) int {
		fmt.Fprintf(problems, "error: %s: %s\n", code, text)
		return status
	}
	raw, err := read(o.trust, pki.MaxEnvelope)
	if err != nil {
		return fail(exitUsage, "file_unreadable", err.Error())
	}
	trust, err := certificate.ReadTrust(raw)
	if err != nil {
		return fail(exitUsage, "trust_invalid", err.Error())
	}
	file, err := read(o.file, pki.MaxStatement)
	if err != nil {
		return fail(exitUsage, "file_unreadable", err.Error())
	}
	r, err := certificate.Verify(file, trust, now)
	if err != nil {
		return fail(exitUntrusted, string(taskcatalog.CodeOf(err, "certificate_unbelievable")), err.Error())
	}
	if o.html != "" {
		page, err := certificate.Page(r)
		if err == nil {
			err = os.WriteFile(o.html, page, 0o644)
		}
		if err != nil {
			return fail(exitUsage, "output_failed", taskcatalog.Clean(err.Error(), 500))
		}
	}
	if err := printReport(out, r, trust); err != nil {
		return fail(exitUsage, "output_failed", err.Error())
	}
	if r.Holds() || o.archive && r.CleanWhenIssued() {
		return exitHolds
	}
	return exitRemarks
}

// read reads a file of at most the given number of bytes.
func read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.New(taskcatalog.Clean(err.Error(), 500))
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, errors.New(taskcatalog.Clean(err.Error(), 500))
	case int64(len(raw)) > most:
		return nil, fmt.Errorf("%s has more than %d bytes", taskcatalog.Clean(path, 200), most)
	}
	return raw, nil
}
