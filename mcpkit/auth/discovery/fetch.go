// Package discovery finds out who protects an MCP server: it reads the server's
// challenge, the metadata of the protected resource (RFC 9728) and that of its
// authorization server (RFC 8414, OpenID Connect Discovery).
//
//	f := discovery.New(discovery.Options{Server: serverURL})
//	found, err := f.Discover(ctx, discovery.ParseChallenge(res.Header))
//	fmt.Println(found.Issuer, found.Meta.TokenEndpoint, found.Resource)
//
// What it reads was written by the server, which may be hostile, so a [Fetcher]
// goes only where it may: https beyond loopback; to addresses of a private
// network only from a server that is in one itself, or to the issuer that the
// configuration names; never to link-local ones, where clouds keep credentials.
// Documents are read up to [MaxBody] and within [Timeout], redirects followed
// thrice. The package issues no tokens and keeps nothing.
package discovery

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	// MaxBody is how many bytes of an answer are read.
	MaxBody = 1 << 20
	// Timeout bounds one request, redirects included.
	Timeout = 20 * time.Second

	maxRedirects = 3
)

// Options are a Fetcher's settings.
type Options struct {
	// Server is the MCP server's URL. It is required.
	Server *url.URL
	// Issuer is the issuer that the configuration names, or empty: then the
	// server names it.
	Issuer string
	// Proxy is as in http.Transport; the proxy, not the Fetcher, then looks up and
	// reaches the addresses. Nil means none.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS is the client's TLS configuration; nil means the default.
	TLS *tls.Config
}

// Fetcher makes requests on behalf of one MCP server within the rules above. It
// is safe for concurrent use.
type Fetcher struct {
	opts    Options
	http    *http.Client
	trusted map[string]bool // hosts that the configuration names
}

// New makes a Fetcher.
func New(o Options) *Fetcher {
	f := &Fetcher{opts: o, trusted: map[string]bool{o.Server.Hostname(): true}}
	if u, err := url.Parse(o.Issuer); err == nil && u.Hostname() != "" {
		f.trusted[u.Hostname()] = true
	}
	direct := &http.Transport{
		DialContext: f.dial, TLSClientConfig: o.TLS, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	var rt http.RoundTripper = direct
	if o.Proxy != nil {
		via := direct.Clone()
		via.DialContext, via.Proxy = nil, o.Proxy
		rt = chooser{proxy: o.Proxy, via: via, direct: direct}
	}
	f.http = &http.Client{Transport: rt, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet {
			return http.ErrUseLastResponse // what was posted is for one address alone
		}
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return CheckURL(req.URL.String())
	}}
	return f
}

// Close ends connections that wait for the next request.
func (f *Fetcher) Close() { f.http.CloseIdleConnections() }

// chooser sends requests through the proxy where there is one for them.
type chooser struct {
	proxy       func(*http.Request) (*url.URL, error)
	via, direct *http.Transport
}

func (c chooser) RoundTrip(req *http.Request) (*http.Response, error) {
	if u, err := c.proxy(req); err == nil && u == nil {
		return c.direct.RoundTrip(req)
	}
	return c.via.RoundTrip(req)
}

func (c chooser) CloseIdleConnections() {
	c.via.CloseIdleConnections()
	c.direct.CloseIdleConnections()
}

// CheckURL reports why an endpoint may not be used, or nil: it is an absolute
// URL with https, or http to this machine, without user and fragment (OAuth 2.1
// section 1.5).
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("it is no absolute URL")
	case u.Scheme != "https" && (u.Scheme != "http" || !IsLoopback(u.Hostname())):
		return fmt.Errorf("%s://%s is not https; http is only for this machine", u.Scheme, u.Host)
	case u.User != nil:
		return errors.New("it holds a user name")
	case u.Fragment != "":
		return errors.New("it holds a fragment")
	}
	return nil
}

// IsLoopback reports whether a host is this machine by its name.
func IsLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// reach is how far away an address is.
type reach int

const (
	public reach = iota
	private
	loopback
	nowhere // link-local, multicast, unspecified
)

var (
	shared    = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	benchmark = netip.MustParsePrefix("198.18.0.0/15") // RFC 2544
	protocol  = netip.MustParsePrefix("192.0.0.0/24")  // RFC 6890
	thisNet   = netip.MustParsePrefix("0.0.0.0/8")
	reserved  = netip.MustParsePrefix("240.0.0.0/4")
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

func reachOf(ip netip.Addr) reach {
	ip = ip.Unmap().WithZone("")
	if b := ip.As16(); nat64.Contains(ip) {
		return reachOf(netip.AddrFrom4([4]byte(b[12:])))
	} else if sixToFour.Contains(ip) {
		return reachOf(netip.AddrFrom4([4]byte(b[2:6])))
	}
	switch {
	case ip.IsLoopback():
		return loopback
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), thisNet.Contains(ip), reserved.Contains(ip):
		return nowhere
	case ip.IsPrivate(), shared.Contains(ip), benchmark.Contains(ip), protocol.Contains(ip):
		return private
	}
	return public
}

// home is where the MCP server itself is.
func (f *Fetcher) home(ctx context.Context) reach {
	host := f.opts.Server.Hostname()
	if IsLoopback(host) {
		return loopback
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return public
	}
	home := public
	for _, ip := range ips {
		if r := reachOf(ip); r != nowhere {
			home = max(home, r)
		}
	}
	return home
}

// dial connects to an address once it is known that it may be reached: the name
// is looked up once, so it cannot mean another address the second time.
func (f *Fetcher) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second, ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return f.allows(ctx, host, at.Addr())
	}}
	return d.DialContext(ctx, network, addr)
}

// allows reports why a host may not be reached at an address, or nil.
func (f *Fetcher) allows(ctx context.Context, host string, ip netip.Addr) error {
	r := reachOf(ip)
	if r == public || r != nowhere && (f.trusted[host] || r <= f.home(ctx)) {
		return nil
	}
	return fmt.Errorf("%s is at %s, where a server at %s may not point to", host, ip, f.opts.Server.Host)
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status int
	Body   []byte // at most MaxBody bytes
	Header http.Header
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the answer is %d %s", e.Status, http.StatusText(e.Status))
}

// errNoJSON is a success without a JSON document, as from a site that has a page
// for every path.
var errNoJSON = errors.New("the answer is no JSON document")

// JSON fetches a document.
func (f *Fetcher) JSON(ctx context.Context, target string, into any) error {
	body, _, err := f.Do(ctx, http.MethodGet, target, http.Header{"Accept": {"application/json"}}, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errNoJSON
	}
	return nil
}

// Do makes one request and reads the answer. The error is a *StatusError where
// the answer is no success; it never quotes a body.
func (f *Fetcher) Do(ctx context.Context, method, target string, header http.Header, body io.Reader) ([]byte, http.Header, error) {
	if err := CheckURL(target); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, nil, err
	}
	req.Header = header
	res, err := f.http.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = fmt.Errorf("%s: %w", req.URL.Redacted(), ue.Err)
		}
		return nil, nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxBody+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer of %s: %w", req.URL.Host, err)
	}
	if len(raw) > MaxBody {
		return nil, nil, fmt.Errorf("the answer of %s exceeds %d bytes", req.URL.Host, MaxBody)
	}
	if res.StatusCode/100 != 2 {
		return nil, nil, &StatusError{res.StatusCode, raw, res.Header}
	}
	return raw, res.Header, nil
}
