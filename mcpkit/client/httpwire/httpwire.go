// Package httpwire carries JSON-RPC messages to and from a server over HTTP.
package httpwire
