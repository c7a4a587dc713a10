package client

import (
	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
)

// FromFile returns a client of the broker that a client.yaml names, with the token of the token
// file that client.yaml names. hostler login writes both files. Codes: config_not_found,
// config_invalid, token_missing, token_file_unreadable, token_file_open, token_malformed.
func FromFile(path string) (*Client, error) {
	file, err := clientfile.Load(path)
	if err != nil {
		return nil, err
	}
	if file.TokenFile == "" {
		return nil, broker.Errorf(broker.Unauthorized, "token_missing",
			"cannot use %s: it names no token file (write it again with hostler login --token-file; a program does not sign in)", path)
	}
	token, err := clientfile.ReadToken(file.TokenFile, nil)
	if err != nil {
		return nil, err
	}
	roots, err := file.Roots()
	if err != nil {
		return nil, err
	}
	return New(Options{Broker: file.Broker, Roots: roots, Token: token}), nil
}
