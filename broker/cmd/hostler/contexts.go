package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var contextName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// contextDir holds one client file per context, NAME.yaml, with its token, and the name of the
// current context.
func (a *app) contextDir() (string, error) {
	base := a.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // the XDG specification says to ignore a relative path
		home := a.getenv("HOME")
		if home == "" {
			return "", broker.Errorf(broker.Invalid, "config_not_found",
				"cannot find the configuration: neither XDG_CONFIG_HOME nor HOME is set (use --config)")
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "hostler"), nil
}

func (a *app) contextPath(name string) (string, error) {
	if !contextName.MatchString(name) {
		return "", usage("%q is not a valid name of a context (use letters, digits, dots, dashes and underscores)", name)
	}
	dir, err := a.contextDir()
	return filepath.Join(dir, name+".yaml"), err
}

// currentContext is the name that context use or login wrote; "" is none.
func (a *app) currentContext() string {
	dir, err := a.contextDir()
	if err != nil {
		return ""
	}
	raw, err := os.ReadFile(filepath.Join(dir, "current"))
	if name := strings.TrimSpace(string(raw)); err == nil && contextName.MatchString(name) {
		return name
	}
	return ""
}

// clientFile reads the client file named by the flags, the environment or the current context, and
// returns its path.
func (a *app) clientFile() (*clientfile.File, string, error) {
	if a.config != "" && a.context != "" {
		return nil, "", usage("cannot use --config and --context together (leave one out)")
	}
	path := a.config
	if path == "" && a.context == "" {
		path = a.getenv("HOSTLER_CONFIG")
	}
	if path == "" {
		name := a.context
		if name == "" {
			name = a.currentContext()
		}
		if name == "" {
			return nil, "", broker.Errorf(broker.Invalid, "no_context",
				"there is no current context (run hostler login, or use --config with the client.yaml in the broker's data directory)")
		}
		var err error
		if path, err = a.contextPath(name); err != nil {
			return nil, "", err
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, "", broker.Errorf(broker.NotFound, "context_not_found",
				"cannot use context %s: there is no such context (see hostler context list)", name)
		}
	}
	file, err := clientfile.Load(path)
	return file, path, err
}

// contextView is a context in printable form, without the token.
type contextView struct {
	Name      string `json:"name"`
	Current   bool   `json:"current"`
	Broker    string `json:"broker"`
	CASHA256  string `json:"ca_sha256"`
	TokenFile string `json:"token_file,omitempty"`
	SignIn    string `json:"sign_in_file,omitempty"`
	File      string `json:"file"`
}

func viewOf(name, current, path string, f *clientfile.File) contextView {
	v := contextView{Name: name, Current: name == current, Broker: f.Broker, TokenFile: f.TokenFile, SignIn: f.SignInFile, File: path}
	if root, err := f.Root(); err == nil {
		v.CASHA256 = pki.Fingerprint(root)
	}
	return v
}

func contextCommand(a *app) *cobra.Command {
	return noun("context", "choose between brokers", "  hostler context use dc1",
		contextListCommand(a), contextUseCommand(a), contextShowCommand(a))
}

func contextListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the contexts", Args: exactly(),
		Example: "  hostler context list",
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.contextDir()
			if err != nil {
				return err
			}
			views, names, rows := []contextView{}, []string{}, [][]string{}
			for _, name := range namesIn(dir) {
				path := filepath.Join(dir, name+".yaml")
				f, err := clientfile.Load(path)
				if err != nil {
					a.note("warning: context %s is left out: %v", name, err)
					continue
				}
				v := viewOf(name, a.currentContext(), path, f)
				mark := ""
				if v.Current {
					mark = "current"
				}
				views, names, rows = append(views, v), append(names, v.Name), append(rows, []string{v.Name, mark, v.Broker})
			}
			return a.show(views, names, func(p *render.Page) { p.Table(render.Kept("NAME", "CURRENT", "BROKER"), rows) })
		},
	}
}

// namesIn are the names of the contexts in a directory. A missing directory has none.
func namesIn(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.yaml")) // sorted
	names := []string{}
	for _, path := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	return names
}

func contextUseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "make a context the current one", Args: exactly("NAME"),
		Example: "  hostler context use dc1",
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.contextPath(args[0])
			if err != nil {
				return err
			}
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return broker.Errorf(broker.NotFound, "context_not_found",
					"cannot use context %s: there is no such context (see hostler context list)", args[0])
			}
			if _, err := clientfile.Load(path); err != nil {
				return err
			}
			if err := clientfile.WritePrivate(filepath.Join(filepath.Dir(path), "current"), []byte(args[0]+"\n")); err != nil {
				return broker.Errorf(broker.Internal, "config_unwritable", "cannot remember the current context: %v", err)
			}
			a.note("context %s is the current one", args[0])
			return nil
		},
	}
}

func contextShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "show the broker in use", Args: exactly(),
		Example: "  hostler context show\n  hostler --context dc1 context show -o json",
		RunE: func(*cobra.Command, []string) error {
			file, path, err := a.clientFile()
			if err != nil {
				return err
			}
			v := viewOf(strings.TrimSuffix(filepath.Base(path), ".yaml"), a.currentContext(), path, file)
			if a.config != "" || a.context == "" && a.getenv("HOSTLER_CONFIG") != "" {
				v.Name, v.Current = "", false // a file outside the contexts has no context name
			}
			return a.show(v, []string{v.Broker}, func(p *render.Page) {
				p.Fields("context", v.Name, "broker", v.Broker, "root", "sha256:"+v.CASHA256, "token file", v.TokenFile, "sign-in file", v.SignIn,
					"client file", v.File)
			})
		},
	}
}
