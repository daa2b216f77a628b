import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Iterator;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.HiveMetaStoreFsImpl;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;

// Hive's metastore on loopback, for one account. HiveMetaStore.main would listen on all addresses
// and answer everybody: Hive 2.3 has no setting for the first, and for the second only Kerberos. So
// this does what it does, without compaction and the rest.
// Janino, which is one of Spark's jars, compiles it as the server starts: it has no generics and no
// lambdas. The argument is the port.
public class Metastore {
    static final String ESTABLISHED = "01";  // a connection's state in /proc/net/tcp

    // Deletes the files of a dropped table only below the metastore's own warehouse: a managed table
    // can name any folder as its location, and Hive would delete it as the server's account.
    public static class Deleter extends HiveMetaStoreFsImpl {
        public boolean deleteDir(
            FileSystem files, org.apache.hadoop.fs.Path path, boolean whole, boolean purge,
            Configuration conf
        ) throws MetaException {
            String warehouse = HiveConf.getVar(conf, HiveConf.ConfVars.METASTOREWAREHOUSE);
            Path own = Paths.get(new org.apache.hadoop.fs.Path(warehouse).toUri().getPath());
            Path named = Paths.get(path.toUri().getPath());
            String scheme = path.toUri().getScheme();
            try {
                boolean local = scheme == null || scheme.equals("file");
                if (!local || !named.toRealPath().startsWith(own.toRealPath())) {
                    throw new MetaException("hudilab: " + path + " is outside the metastore's "
                        + "warehouse " + own + ", so it is not deleted; delete it yourself");
                }
            } catch (IOException error) {
                return true;  // there is nothing to delete
            }
            return super.deleteDir(files, path, whole, purge, conf);
        }
    }

    // The account at the other end of a connection, as Linux lists it; -1 unless one row is that
    // end. Whole addresses and the state count: a row of a connection that has ended lists the
    // account 0.
    static long owner(Socket socket) throws IOException {
        long owner = -1;
        String[] tables = {"/proc/net/tcp", "/proc/net/tcp6"};
        for (int table = 0; table < tables.length; table++) {
            if (table == 1 && !Files.exists(Paths.get(tables[table]))) {
                continue;  // a machine without IPv6
            }
            String from = listed(socket.getInetAddress(), socket.getPort(), table == 1);
            String to = listed(socket.getLocalAddress(), socket.getLocalPort(), table == 1);
            Iterator lines = Files.readAllLines(Paths.get(tables[table])).iterator();
            while (lines.hasNext()) {
                String[] fields = ((String) lines.next()).trim().split("\\s+");
                boolean ends = fields.length > 7 && fields[1].equals(from) && fields[2].equals(to);
                if (ends && fields[3].equals(ESTABLISHED)) {
                    if (owner != -1) {
                        return -1;
                    }
                    owner = Long.parseLong(fields[7]);
                }
            }
        }
        return owner;
    }

    // An address and port as these tables write them: words of four bytes, in the machine's order.
    static String listed(InetAddress address, int port, boolean mapped) {
        byte[] bytes = address.getAddress();
        ByteBuffer words = ByteBuffer.allocate(mapped ? 16 : bytes.length);
        if (mapped && bytes.length == 4) {
            words.putShort(10, (short) -1).position(12);  // ::ffff:127.0.0.1
        }
        words.put(bytes).rewind();
        words.order(ByteOrder.nativeOrder());
        StringBuilder text = new StringBuilder();
        while (words.hasRemaining()) {
            text.append(String.format("%08X", new Object[] {Integer.valueOf(words.getInt())}));
        }
        return text.append(String.format(":%04X", new Object[] {Integer.valueOf(port)})).toString();
    }

    public static void main(String[] arguments) throws Throwable {
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        InetSocketAddress address =
            new InetSocketAddress(loopback, Integer.parseInt(arguments[0]));
        final boolean linux = "Linux".equals(System.getProperty("os.name"));
        Object self =
            linux ? Files.getAttribute(Paths.get("/proc/self"), "unix:uid") : Long.valueOf(-1);
        final long account = ((Number) self).longValue();
        // First: if the port is taken, nothing has been created.
        TThreadPoolServer.Args all = new TThreadPoolServer.Args(new TServerSocket(address) {
            protected TSocket acceptImpl() throws TTransportException {
                while (true) {
                    TSocket client = super.acceptImpl();
                    try {
                        long owner = linux ? owner(client.getSocket()) : account;
                        if (owner == account) {
                            return client;
                        }
                        System.err.println("hudilab: refused a connection of "
                            + (owner == -1 ? "an unknown account" : "account " + owner));
                    } catch (IOException error) {
                        System.err.println("hudilab: refused a connection: " + error);
                    }
                    client.close();
                }
            }
        });
        HiveConf conf = new HiveConf(HiveMetaStore.class);
        Thread.currentThread().setContextClassLoader(Deleter.class.getClassLoader());
        conf.set("hive.metastore.fs.handler.class", Deleter.class.getName());
        final ThriftHiveMetastore.Iface handler =
            HiveMetaStore.newRetryingHMSHandler("hudilab", conf, false);
        all.processor(new TSetIpAddressProcessor(handler));
        TThreadPoolServer server = new TThreadPoolServer(all);
        server.setServerEventHandler(new TServerEventHandler() {
            public void preServe() {}

            public ServerContext createContext(TProtocol in, TProtocol out) {
                return null;
            }

            public void processContext(ServerContext context, TTransport in, TTransport out) {}

            // Clients that were killed leave their connection to the database in this thread.
            public void deleteContext(ServerContext context, TProtocol in, TProtocol out) {
                try {
                    handler.shutdown();
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            }
        });
        server.serve();
    }
}
