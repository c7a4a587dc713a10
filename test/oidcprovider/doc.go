// Package oidcprovider runs Zitadel's OpenID Connect provider over TLS, with the storage of its own
// example, for tests of sign-in. A test enters codes in place of a person's browser. The provider's
// clients are public.
package oidcprovider
