// Package signin signs a person in by device code (RFC 8628) and renews the ID token. Attempt is a
// sign-in that waits for the person; Session is one that was kept in a file. The broker says where the
// provider is. No token is ever in an error or a message.
package signin
