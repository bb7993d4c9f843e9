/* Network `none`: only the ordinary families, no route, and none of the host's sockets.
 * covers: NET-1, NET-2 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "probe.h"

static long make(int family, int type, int protocol) {
    int fd = socket(family, type, protocol);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}
#define FAMILY(name, family, type, protocol, place)                                \
    PROBE(family_##name, "plain", "EAFNOSUPPORT", "EAFNOSUPPORT", place) {        \
        return make(family, type, protocol);                                       \
    }
FAMILY(alg, 38, SOCK_SEQPACKET, 0, "user")
FAMILY(vsock, 40, SOCK_STREAM, 0, "user")
FAMILY(vsock_datagram, 40, SOCK_DGRAM, 0, "user")
FAMILY(packet, 17, SOCK_RAW, 0x0300, "ns")
FAMILY(packet_datagram, 17, SOCK_DGRAM, 0, "ns")
FAMILY(xdp, 44, SOCK_RAW, 0, "ns")
FAMILY(key, 15, SOCK_RAW, 2, "ns")
FAMILY(rxrpc, 33, SOCK_DGRAM, 2, "user")
FAMILY(tipc, 30, SOCK_STREAM, 0, "user")
FAMILY(bluetooth, 31, SOCK_RAW, 1, "user")
FAMILY(can, 29, SOCK_RAW, 1, "user")
FAMILY(qipcrtr, 42, SOCK_DGRAM, 0, "user")
FAMILY(rds, 21, SOCK_SEQPACKET, 0, "user")
FAMILY(llc, 26, SOCK_STREAM, 0, "user")
FAMILY(kcm, 41, SOCK_DGRAM, 0, "user")
FAMILY(smc, 43, SOCK_STREAM, 0, "user")
FAMILY(pppox, 24, SOCK_STREAM, 0, "user")
FAMILY(ax25, 3, SOCK_SEQPACKET, 0, "user")
FAMILY(x25, 9, SOCK_SEQPACKET, 0, "user")
FAMILY(nfc, 39, SOCK_SEQPACKET, 0, "user")
FAMILY(phonet, 35, SOCK_DGRAM, 0, "user")
FAMILY(mctp, 45, SOCK_DGRAM, 0, "user")
FAMILY(high_bits, 40 | 0x7f000000, SOCK_STREAM, 0, "none:no kernel takes such a family")
FAMILY(netlink_netfilter, 16, SOCK_RAW, 12, "user")
FAMILY(netlink_xfrm, 16, SOCK_RAW, 6, "user")
FAMILY(netlink_uevent, 16, SOCK_RAW, 15, "user")
FAMILY(netlink_audit, 16, SOCK_RAW, 9, "user")
FAMILY(netlink_generic, 16, SOCK_RAW, 16, "user")
FAMILY(netlink_crypto, 16, SOCK_RAW, 21, "user")
FAMILY(netlink_diag, 16, SOCK_RAW, 4, "user")
FAMILY(netlink_rdma, 16, SOCK_RAW, 20, "user")
/* Compiled socket filters use the same global budget as seccomp filters. */
static long attach_filter(int option, int type) {
    struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, 0xffff}};
    struct sock_fprog prog = {1, code};
    int one = 1, fd = socket(AF_INET, type, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    return setsockopt(fd, SOL_SOCKET, option, &prog, sizeof prog) < 0 ? -errno : 0;
}
PROBE(socket_filter, "plain", "ENOPROTOOPT", "ENOPROTOOPT", "user") { return attach_filter(SO_ATTACH_FILTER, SOCK_DGRAM); }
PROBE(socket_filter_reuseport, "plain", "ENOPROTOOPT", "ENOPROTOOPT", "user") {
    return attach_filter(SO_ATTACH_REUSEPORT_CBPF, SOCK_DGRAM);
}
PROBE(socket_filter_bpf, "plain", "ENOPROTOOPT", "ENOPROTOOPT", "user:EBADF|EINVAL") {
    int none = -1, fd = socket(AF_INET, SOCK_DGRAM, 0);
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &none, sizeof none) < 0 ? -errno : 0;
}
PROBE(socket_filter_reuseport_bpf, "plain", "ENOPROTOOPT", "ENOPROTOOPT", "user:EBADF|EINVAL") {
    int none = -1, fd = socket(AF_INET, SOCK_DGRAM, 0);
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &none, sizeof none) < 0 ? -errno : 0;
}
PROBE(family_pair_vsock, "plain", "EAFNOSUPPORT", "EAFNOSUPPORT", "none:no family but UNIX has pairs here") {
    int pair[2];
    return socketpair(40, SOCK_STREAM, 0, pair) < 0 ? -errno : 0;
}
PROBE(raw_icmp, "plain", "EPERM", "EPERM", "ns") { return make(AF_INET, SOCK_RAW, 1); }
PROBE(raw_ip, "plain", "EPERM", "EPERM", "ns") { return make(AF_INET, SOCK_RAW, 255); }
PROBE(raw_icmp6, "plain", "EPERM", "EPERM", "ns") { return make(AF_INET6, SOCK_RAW, 58); }

/* Protocols of ordinary families: the kernel would load a module on request. */
#define NO_PROTOCOL "EPROTONOSUPPORT|ESOCKTNOSUPPORT|EAFNOSUPPORT|EPERM"
#define PROTOCOL(name, type, protocol) \
    PROBE(protocol_##name, "plain", NO_PROTOCOL, NO_PROTOCOL, "user") { return make(AF_INET, type, protocol); }
PROTOCOL(sctp, SOCK_STREAM, 132)
PROTOCOL(dccp, SOCK_DCCP, 33)
PROTOCOL(l2tp, SOCK_DGRAM, 115)
PROTOCOL(smc, SOCK_STREAM, 256)
PROTOCOL(mptcp, SOCK_STREAM, 262)
PROTOCOL(udplite, SOCK_DGRAM, 136)

/* Nothing is sent: there is no route, and the control's only interface leads nowhere. */
static long try_connect(const char *address, int port, int type) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool is_v6 = strchr(address, ':') != NULL;
    inet_pton(is_v6 ? AF_INET6 : AF_INET, address, is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr);
    int fd = socket(is_v6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = is_v6 ? connect(fd, (void *)&v6, sizeof v6) : connect(fd, (void *)&v4, sizeof v4);
    return r < 0 ? -errno : 0;
}
/* A connection in progress counts as success, whoever answers. */
static long reach(const char *address, int port, int type) {
    long r = try_connect(address, port, type | SOCK_NONBLOCK);
    return r == -EINPROGRESS ? 0 : r;
}
#define REACH(name, address, port, type) \
    PROBE(reach_##name, "plain", "ENETUNREACH", "ENETUNREACH", "ns") { return reach(address, port, type); }
REACH(tcp, "198.51.100.7", 80, SOCK_STREAM)
REACH(udp, "198.51.100.7", 53, SOCK_DGRAM)
REACH(metadata, "169.254.169.254", 80, SOCK_STREAM)
REACH(private, "10.0.0.1", 22, SOCK_STREAM)
REACH(bridge, "172.17.0.1", 2375, SOCK_STREAM)
REACH(multicast, "224.0.0.1", 5353, SOCK_DGRAM)
PROBE(reach_broadcast, "plain", "ENETUNREACH|EACCES", "ENETUNREACH|EACCES", "ns:EACCES|ok") {
    return reach("255.255.255.255", 67, SOCK_DGRAM);
}
#define NO_V6 "ENETUNREACH|EADDRNOTAVAIL|EAFNOSUPPORT"
#define REACH6(name, address) \
    PROBE(reach6_##name, "plain", NO_V6, NO_V6, "ns") { return reach(address, 80, SOCK_STREAM); }
REACH6(tcp, "2001:db8::7")
REACH6(metadata, "fd00:ec2::254")
PROBE(reach6_link_local, "plain", NO_V6 "|EINVAL", NO_V6 "|EINVAL", "none:needs the number of an interface") {
    return reach("fe80::1", 80, SOCK_STREAM);
}
PROBE(route_exists, "plain", "safe", "safe", "ns") {
    FILE *f = fopen("/proc/net/route", "r");
    int lines = 0;
    for (char line[256]; f != NULL && fgets(line, sizeof line, f) != NULL;)
        lines++;
    return lines > 1 ? 0 : SAFE;
}
PROBE(interfaces_beyond_lo, "plain", "safe", "safe", "ns") {
    FILE *f = fopen("/proc/net/dev", "r");
    int lines = 0;
    for (char line[512]; f != NULL && fgets(line, sizeof line, f) != NULL;)
        lines++;
    return lines > 3 ? 0 : SAFE;
}

/* `run` listens on the host. The same address inside belongs to another machine, which answers
 * immediately or not at all. */
static long local(const char *address, int type) { return try_connect(address, atoi(given("ESCAPE_PORT")), type); }
#define LOCAL(name, address)                                                                     \
    PROBE(host_port_##name, "plain", "ECONNREFUSED|ENETUNREACH|EADDRNOTAVAIL",                    \
          "ECONNREFUSED|ENETUNREACH|EADDRNOTAVAIL", "host") { return local(address, SOCK_STREAM); }
LOCAL(v4, "127.0.0.1")
LOCAL(any, "0.0.0.0")
LOCAL(other, "127.9.9.9")
LOCAL(v6, "::1")
LOCAL(mapped, "::ffff:127.0.0.1")
PROBE(host_abstract_socket, "plain", "ECONNREFUSED|EPERM", "ECONNREFUSED|EPERM", "host") {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s", given("ESCAPE_WORD"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(given("ESCAPE_WORD")));
    return connect(fd, (void *)&name, n) < 0 ? -errno : 0;
}
static long connect_path(const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return connect(fd, (void *)&name, sizeof name) < 0 ? -errno : 0;
}
PROBE(host_socket_path, "plain", "ENOENT", "ENOENT", "host") { return connect_path(given("ESCAPE_SOCKET")); }
#define SOCKET(name, path) \
    PROBE(socket_##name, "plain", "ENOENT", "ENOENT", "host:ok|EACCES|ECONNREFUSED") { return connect_path(path); }
SOCKET(docker, "/var/run/docker.sock")
SOCKET(containerd, "/run/containerd/containerd.sock")
SOCKET(dbus, "/run/dbus/system_bus_socket")
SOCKET(x11, "/tmp/.X11-unix/X0")
SOCKET(journal, "/run/systemd/journal/stdout")
SOCKET(syslog, "/dev/log")
PROBE(unix_sockets_listed, "plain", "safe", "safe", "host") {
    return file_has("/proc/net/unix", given("ESCAPE_WORD")) ? 0 : SAFE;
}

/* Changes to the network from inside. */
static long set_flag(int level, int option, const void *value, socklen_t n) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -errno : setsockopt(fd, level, option, value, n) < 0 ? -errno : 0;
}
PROBE(opt_mark, "plain", "EPERM", "EPERM", "ns") {
    int one = 1;
    return set_flag(SOL_SOCKET, SO_MARK, &one, sizeof one);
}
PROBE(opt_transparent, "plain", "EPERM", "EPERM", "ns") {
    int one = 1;
    return set_flag(SOL_IP, IP_TRANSPARENT, &one, sizeof one);
}
PROBE(opt_priority, "plain", "EPERM", "EPERM", "ns") {
    int seven = 7;
    return set_flag(SOL_SOCKET, SO_PRIORITY, &seven, sizeof seven);
}
PROBE(opt_rcvbuf_force, "plain", "EPERM", "EPERM", "ns") {
    int much = 1 << 26;
    return set_flag(SOL_SOCKET, SO_RCVBUFFORCE, &much, sizeof much);
}
PROBE(opt_bind_to_device, "plain", "ENODEV|EPERM", "ENODEV|EPERM", "ns") {
    return set_flag(SOL_SOCKET, SO_BINDTODEVICE, "d0", 3);
}
PROBE(iptables_info, "plain", "EPERM|ENOPROTOOPT", "EPERM|ENOPROTOOPT", "ns:EINVAL|EFAULT|ENOENT|ok") {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char info[84] = "filter";
    socklen_t n = sizeof info;
    return getsockopt(fd, SOL_IP, 64, info, &n) < 0 ? -errno : 0;
}
PROBE(interface_down, "plain", "EPERM", "EPERM", "ns") {
    struct ifreq req = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ioctl(fd, SIOCGIFFLAGS, &req);
    return ioctl(fd, SIOCSIFFLAGS, &req) < 0 ? -errno : 0;
}
PROBE(netlink_set_link, "plain", "EPERM", "EPERM", "ns") {
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } msg = {{sizeof msg, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0}, {.ifi_index = 1}}; /* lo, no change */
    int fd = socket(AF_NETLINK, SOCK_RAW, 0);
    if (fd < 0 || send(fd, &msg, sizeof msg, 0) < 0)
        return -errno;
    struct {
        struct nlmsghdr head;
        int error;
        char rest[512];
    } reply;
    if (recv(fd, &reply, sizeof reply, 0) < 0)
        return -errno;
    return reply.error;
}
