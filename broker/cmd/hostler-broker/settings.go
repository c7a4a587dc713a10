package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// settings are what --config holds; a flag wins over it.
type settings struct {
	DataDir     string `yaml:"data_dir"`
	Listen      string `yaml:"listen"`
	AgentListen string `yaml:"agent_listen"`
	Advertise   string `yaml:"advertise"`
	DB          string `yaml:"db"`
}

const maxSettings = 64 << 10

// where adds the flags that say which broker is meant.
func (s *settings) where(c *cobra.Command) {
	c.Flags().StringVar(&s.DataDir, "data-dir", "", "directory of the broker's files")
	c.Flags().StringVar(&s.DB, "db", "", "postgres://… in place of SQLite in the data directory (HOSTLER_DB keeps a password out of argv)")
	c.Flags().String("config", "", "file with the same settings: data_dir, listen, agent_listen, advertise, db")
}

// load completes the flags from the environment and the config file. Code:
// config_invalid.
func (s *settings) load(c *cobra.Command) error {
	if u, err := url.Parse(s.DB); s.DB != "" && err == nil {
		if _, has := u.User.Password(); has {
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "warning: the password in --db is seen by everyone on this machine (use HOSTLER_DB or --config)")
		}
	}
	var file settings
	if path, err := c.Flags().GetString("config"); err == nil && path != "" {
		if err := readSettings(path, &file); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		to   *string
		from []string
	}{
		{&s.DataDir, []string{file.DataDir}},
		{&s.Listen, []string{file.Listen}},
		{&s.AgentListen, []string{file.AgentListen}},
		{&s.Advertise, []string{file.Advertise}},
		{&s.DB, []string{os.Getenv("HOSTLER_DB"), file.DB}},
	} {
		for _, v := range f.from {
			if *f.to == "" {
				*f.to = v
			}
		}
	}
	if s.DataDir == "" {
		return usage("%s needs a data directory (use --data-dir DIR)", c.CommandPath())
	}
	return nil
}

func readSettings(path string, into *settings) error {
	f, err := os.Open(path)
	if err != nil {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot read config: %v", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot read config: %v", err)
	}
	if len(raw) > maxSettings {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot use config %s: it is larger than %d bytes", path, maxSettings)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot use config %s: %s", path, taskcatalog.Clean(strings.Join(strings.Fields(err.Error()), " "), 300))
	}
	return nil
}
