package server

import (
	"context"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/secrets"
)

// openVault prepares the Vault, if a Vault keeps the secrets.
func (s *Server) openVault() error {
	if s.c.Vault == nil {
		return nil
	}
	vault, err := secrets.OpenVault(*s.c.Vault, s.c.Now)
	if err != nil {
		return err
	}
	s.secrets = vault
	s.onClose(vault.Close)
	return nil
}

// openSecrets opens the files that keep the secrets. With a Vault the files are left alone, so that
// a return to files loses nothing.
func (s *Server) openSecrets(dir *DataDir) error {
	if s.c.Vault != nil {
		return nil
	}
	path, err := dir.ensureDir("secrets")
	if err != nil {
		return err
	}
	files, err := secrets.Open(path)
	if err != nil {
		return err
	}
	s.secrets = files
	s.onClose(files.Close)
	return nil
}

// trySecrets checks once whether secrets can be read, so that a configuration mistake shows at the
// start. The broker serves in any case; the use of an unreadable secret fails with its own error.
func (s *Server) trySecrets(ctx context.Context) error {
	if _, err := s.secrets.Get(ctx, "broker/start"); secrets.Unreachable(err) {
		s.c.Log.Warn("secrets cannot be read", zap.Error(err))
	}
	return nil
}
