package taskcatalog

import (
	"net/netip"
	"strings"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var registryForm = lazyregexp.New(`^(?:[a-z0-9](?:[a-z0-9.-]{0,253}[a-z0-9])?|\[[0-9a-f:]{2,39}\])(?::[0-9]{1,5})?$`)

// IsRegistry reports whether a text has the form of a registry's name, HOST[:PORT] in lower case.
func IsRegistry(name string) bool { return registryForm.MatchString(name) }

// RegistryName is the canonical name under which a registry's credential is kept: in lower case,
// and without the default port.
func RegistryName(name string, plainHTTP bool) string {
	port := ":443"
	if plainHTTP {
		port = ":80"
	}
	name = strings.TrimSuffix(strings.ToLower(name), port)
	if name == "index.docker.io" || name == "registry-1.docker.io" {
		return "docker.io"
	}
	return name
}

// CanonicalSource returns the one spelling of a source (KIND:PATH). Only the registry of an OCI source has
// several, all of which lead to it over TLS: those of RegistryName, a '.' after the host, a port that is empty
// or begins with 0, and the long forms of an IPv6 address.
func CanonicalSource(source string) string {
	path, oci := strings.CutPrefix(source, "oci:")
	if !oci {
		return source
	}
	host, repository, below := strings.Cut(path, "/")
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	host = strings.TrimRight(strings.ToLower(host), ".")
	if inside, bracketed := strings.CutPrefix(strings.TrimSuffix(host, "]"), "["); bracketed {
		if a, err := netip.ParseAddr(inside); err == nil {
			host = "[" + a.String() + "]"
		}
	}
	if port != "" {
		host += ":" + port
	}
	source = "oci:" + RegistryName(host, false)
	if below {
		source += "/" + repository
	}
	return source
}
